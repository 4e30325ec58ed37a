-- Completed jobs that were left in the queue (retire_job) leave it for job_history, with the time of their
-- end; of the jobs that are named, those that are in that state. No event: they have ended. Returns how many.
-- The caller has locked the jobs.
CREATE OR REPLACE FUNCTION fetchwork.leave_queue(clusters integer [], procs integer [])
RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    gone_clusters integer[];
    gone_procs integer[];
    ctids tid[] := fetchwork.job_rows(clusters, procs);
BEGIN
    WITH gone AS (
        DELETE FROM fetchwork.job AS j
        WHERE j.ctid = ANY (ctids) AND j.job_status = 4
        RETURNING j.*
    ),
    filed AS (
        INSERT INTO fetchwork.job_history (
            cluster_id, proc_id, job_status, job_prio, autocluster_id, batch_id, run_id,
            q_date, completed_at, first_start_at, last_start_at,
            num_starts, num_completions, num_holds, num_not_started, num_evicted, num_lost,
            wall_s, user_cpu_s, sys_cpu_s,
            exit_by_signal, exit_code, exit_signal,
            slot, owner, queue, last_reason, facts, ad
        )
        SELECT
            g.cluster_id, g.proc_id, 4, g.job_prio, g.autocluster_id, g.batch_id,
            (g.facts ->> 'RunId')::bigint,
            g.q_date, g.status_at, g.first_start_at, g.last_start_at,
            g.num_starts, g.num_completions, g.num_holds, g.num_not_started, g.num_evicted, g.num_lost,
            g.wall_s, g.user_cpu_s, g.sys_cpu_s,
            g.facts -> 'ExitBySignal' = 'true',
            fetchwork.integer_of(g.facts -> 'ExitCode'),
            fetchwork.integer_of(g.facts -> 'ExitSignal'),
            g.facts ->> 'LastRemoteHost', g.owner, g.queue, g.last_reason,
            g.facts - ARRAY[
                'CompletionDate', 'ExitBySignal', 'ExitCode', 'ExitSignal', 'ExitStatus', 'RunId'
            ],
            g.ad
        FROM gone AS g
    ),
    counted AS (
        -- of its owner only: its autocluster and batch counted it as over when it ended
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, owner)
        SELECT o.autocluster_id, o.batch_id, c.sign * o.jobs, CASE WHEN c.sign < 0 THEN o.owner END
        FROM (
            SELECT g.autocluster_id, g.batch_id, g.owner, count(*) AS jobs
            FROM gone AS g
            GROUP BY g.autocluster_id, g.batch_id, g.owner
        ) AS o
        CROSS JOIN (VALUES (-1), (1)) AS c (sign)
    )
    SELECT array_agg(g.cluster_id), array_agg(g.proc_id)
    INTO gone_clusters, gone_procs
    FROM gone AS g;
    PERFORM fetchwork.note_files_over(gone_clusters, gone_procs);
    RETURN coalesce(cardinality(gone_clusters), 0);
END
$$;
