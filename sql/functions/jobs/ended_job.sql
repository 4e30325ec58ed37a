-- The row of job_history for a job that ends, from its last row in the queue. report: the exit of its last
-- run, or NULL; facts replaces the job's own. run_s: the seconds of a last run that completed and is not in
-- the job's row yet. Returns a set so that PostgreSQL inlines it into the caller's statement.
CREATE OR REPLACE FUNCTION fetchwork.ended_job(
    job fetchwork.job,
    status smallint,
    ended_at timestamptz,
    run_id bigint,
    report jsonb,
    slot text,
    reason text,
    facts jsonb,
    run_s double precision DEFAULT NULL
)
RETURNS SETOF fetchwork.job_history
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT
        (ended_job.job).cluster_id, (ended_job.job).proc_id, ended_job.status, (ended_job.job).job_prio,
        (ended_job.job).autocluster_id, (ended_job.job).batch_id, ended_job.run_id,
        (ended_job.job).q_date, ended_job.ended_at, (ended_job.job).first_start_at,
        (ended_job.job).last_start_at,
        (ended_job.job).num_starts, (ended_job.job).num_completions + (run_s IS NOT NULL)::integer,
        (ended_job.job).num_holds, CASE WHEN run_s IS NULL THEN (ended_job.job).num_not_started ELSE 0 END,
        (ended_job.job).num_evicted, (ended_job.job).num_lost,
        (ended_job.job).wall_s + coalesce(run_s, 0),
        (ended_job.job).user_cpu_s + CASE
            WHEN run_s IS NULL THEN 0
            ELSE coalesce(fetchwork.number_of(ended_job.report -> 'RemoteUserCpu'), 0)
        END,
        (ended_job.job).sys_cpu_s + CASE
            WHEN run_s IS NULL THEN 0
            ELSE coalesce(fetchwork.number_of(ended_job.report -> 'RemoteSysCpu'), 0)
        END,
        ended_job.report -> 'ExitBySignal' = 'true',
        fetchwork.integer_of(ended_job.report -> 'ExitCode'),
        fetchwork.integer_of(ended_job.report -> 'ExitSignal'),
        ended_job.slot, (ended_job.job).owner, (ended_job.job).queue,
        coalesce(ended_job.reason, (ended_job.job).last_reason), ended_job.facts, (ended_job.job).ad;
END;
