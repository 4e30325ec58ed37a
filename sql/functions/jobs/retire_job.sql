-- A job's end: its row moves to job_history as Completed (4) or Removed (3). No run of it is live. The caller has locked the job and writes the event
-- (ABORTED was written when it was asked for, TERMINATED by finish).
CREATE OR REPLACE FUNCTION fetchwork.retire_job(cluster integer, proc integer, status smallint, reason text, report jsonb DEFAULT NULL, slot text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    its fetchwork.job;
BEGIN
    DELETE FROM fetchwork.job AS j WHERE j.cluster_id = cluster AND j.proc_id = proc RETURNING j.* INTO its;
    INSERT INTO fetchwork.job_history (
        cluster_id, proc_id, job_status, job_prio, autocluster_id, batch_id, run_id, q_date, completed_at, first_start_at, last_start_at,
        num_starts, num_completions, num_holds, num_not_started, num_evicted, num_lost, wall_s, user_cpu_s, sys_cpu_s,
        exit_by_signal, exit_code, exit_signal, slot, owner, queue, last_reason, ad
    )
    VALUES (
        cluster, proc, status, its.job_prio, its.autocluster_id, its.batch_id, its.run_id, its.q_date, clock_timestamp(), its.first_start_at, its.last_start_at,
        its.num_starts, its.num_completions, its.num_holds, its.num_not_started, its.num_evicted, its.num_lost, its.wall_s, its.user_cpu_s, its.sys_cpu_s,
        retire_job.report -> 'ExitBySignal' = 'true', fetchwork.integer_of(retire_job.report -> 'ExitCode'), fetchwork.integer_of(retire_job.report -> 'ExitSignal'),
        retire_job.slot, its.owner, its.queue, coalesce(retire_job.reason, its.last_reason), its.ad
    );
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held, completed, removed)
    VALUES (its.autocluster_id, its.batch_id, -1, CASE WHEN its.job_status = 5 THEN -1 ELSE 0 END,
        CASE WHEN status = 4 THEN 1 ELSE 0 END, CASE WHEN status = 3 THEN 1 ELSE 0 END);
END
$$;
