-- The common end of many jobs at once: JOB_EXIT reports an exit, no end was requested, no policy decides, and
-- the host is healthy. Does as finish() would (the run's and the job's row move to history, use is charged,
-- TERMINATED (005) is written), but touches each row once. Returns their positions in the arrays. finish()
-- must do the others, which stay unchanged: runs that are over, to end, evicted, suspended, failed at once,
-- with another token, with files for an access point, or whose rows another transaction holds.
-- Locks: the jobs and the runs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.finish_runs(run_ids bigint [], tokens uuid [], reports jsonb [])
RETURNS integer []
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    quick_s double precision := fetchwork.setting_value('quick_failure');
    finished integer[];
    clusters integer[];
    procs integer[];
BEGIN
    WITH asked AS (
        SELECT
            a.*,
            fetchwork.integer_of(a.report -> 'ExitCode') AS exit_code,
            fetchwork.integer_of(a.report -> 'ExitSignal') AS exit_signal,
            fetchwork.number_of(a.report -> 'JobDuration') AS duration_s
        FROM unnest(run_ids, tokens, reports) WITH ORDINALITY AS a (run_id, token, report, n)
        WHERE fetchwork.is_plain_report(a.report)
    ),
    ending AS (
        SELECT
            a.n, a.report, a.exit_code, a.exit_signal, r AS run, j AS job, clock_timestamp() AS at,
            greatest(
                0, coalesce(a.duration_s, extract(epoch FROM clock_timestamp() - r.started_at))
            )::double precision AS run_s,
            coalesce(r.usage, '{}') || a.report AS used
        FROM asked AS a
        JOIN fetchwork.run AS r ON r.run_id = a.run_id
        JOIN fetchwork.job AS j ON j.cluster_id = r.cluster_id AND j.proc_id = r.proc_id
        JOIN fetchwork.host AS h ON h.host_id = r.host_id
        WHERE fetchwork.proves(a.token, r.token, r.host_id)
            AND r.state = 'running'
            AND r.end_requested IS NULL
            AND j.run_id = r.run_id
            AND j.job_status IN (2, 7)
            -- it has gone on, and finish() tells that first
            AND NOT (j.job_status = 7 AND a.exit_code IS NOT NULL)
            -- await_files makes such a job wait
            AND NOT EXISTS (
                SELECT FROM fetchwork.job_file AS f
                WHERE f.cluster_id = r.cluster_id
                    AND f.proc_id = r.proc_id
                    AND f.direction = 'output'
                    AND f.run_id = r.run_id
                    AND fetchwork.leaves_for_access_point(f.run_id, f.cluster_id, f.proc_id) IS NOT NULL
            )
            AND NOT (j.has_policy AND fetchwork.stays(j.cluster_id, j.proc_id))
            AND coalesce(a.exit_code, a.exit_signal) IS NOT NULL
            -- note_start() finds out whether host or job is at fault
            AND h.bad_starts = 0
            AND h.black_hole_since IS NULL
            AND NOT EXISTS (
                SELECT FROM fetchwork.failing_owner AS f
                WHERE f.host_id = r.host_id AND f.owner = j.owner
            )
            AND (
                a.exit_code = 0
                OR coalesce(a.duration_s, extract(epoch FROM clock_timestamp() - r.started_at)) >= quick_s
            )
        FOR UPDATE OF j, r SKIP LOCKED
    ),
    closed AS (
        DELETE FROM fetchwork.run AS r
        USING ending AS e
        WHERE r.run_id = (e.run).run_id
        RETURNING e.*
    ),
    retired AS (
        DELETE FROM fetchwork.job AS j
        USING closed AS e
        WHERE j.cluster_id = (e.job).cluster_id AND j.proc_id = (e.job).proc_id
        RETURNING e.*
    ),
    charged AS (
        SELECT
            e.*,
            (e.job).user_cpu_s + coalesce(fetchwork.number_of(e.report -> 'RemoteUserCpu'), 0) AS user_cpu_s,
            (e.job).sys_cpu_s + coalesce(fetchwork.number_of(e.report -> 'RemoteSysCpu'), 0) AS sys_cpu_s,
            fetchwork.bytes_moved((e.job).facts, (e.run).transfer) AS moved,
            fetchwork.suspension_facts((e.job).facts, e.run, e.at) AS suspended
        FROM retired AS e
    ),
    run_kept AS (
        INSERT INTO fetchwork.run_history
        SELECT h.*
        FROM charged AS e
        CROSS JOIN LATERAL fetchwork.closed_run(
            e.run, (e.job).owner, 'completed', NULL, e.at, e.report
        ) AS h
    ),
    job_kept AS (
        INSERT INTO fetchwork.job_history
        SELECT h.*
        FROM charged AS e
        CROSS JOIN LATERAL fetchwork.ended_job(
            e.job, 4::smallint, e.at, (e.job).run_id, e.report, (e.run).slot, NULL,
            (e.job).facts || fetchwork.run_facts(e.run, 'completed', NULL, e.used, e.run_s, e.at)
                || e.moved || e.suspended || jsonb_build_object('LastJobStatus', (e.job).job_status),
            e.run_s
        ) AS h
    ),
    told AS (
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        SELECT
            5, (e.run).cluster_id, (e.run).proc_id, (e.run).run_id,
            fetchwork.completion(
                fetchwork.resource_table(a, coalesce(fetchwork.provisioned(s), '{}'), e.used, e.run_s),
                (e.job).num_starts, e.user_cpu_s, e.sys_cpu_s,
                e.report || coalesce((e.run).transfer, '{}') || e.moved, e.run_s
            )
        FROM charged AS e
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = (e.run).autocluster_id
        LEFT JOIN fetchwork.slot AS s ON s.host_id = (e.run).host_id AND s.name = (e.run).slot
    ),
    with_files AS (
        INSERT INTO fetchwork.files_over (cluster_id, proc_id)
        SELECT (e.job).cluster_id, (e.job).proc_id
        FROM retired AS e
        WHERE EXISTS (
            SELECT FROM fetchwork.job_file AS f
            WHERE f.cluster_id = (e.job).cluster_id AND f.proc_id IN (-1, (e.job).proc_id)
        )
            OR EXISTS (SELECT FROM fetchwork.job_key AS b WHERE b.cluster_id = (e.job).cluster_id)
    ),
    counted AS (
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, owner, jobs, completed, usage)
        SELECT
            (e.job).autocluster_id, (e.job).batch_id, (e.job).owner, -count(*), count(*),
            sum((e.run).weight * fetchwork.charged_s(e.run, e.at))
        FROM retired AS e
        GROUP BY (e.job).autocluster_id, (e.job).batch_id, (e.job).owner
    )
    SELECT array_agg(e.n), array_agg((e.job).cluster_id), array_agg((e.job).proc_id)
    INTO finished, clusters, procs
    FROM retired AS e;
    PERFORM fetchwork.materialize_after(clusters, procs, true);
    RETURN coalesce(finished, '{}');
END
$$;
