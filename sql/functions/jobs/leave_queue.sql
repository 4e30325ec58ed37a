-- Moves Completed jobs that stayed in the queue (retire_job) to job_history, with the time of their end;
-- skips jobs in other states. Writes no event: they have ended. Returns how many. The caller has locked the
-- jobs.
CREATE OR REPLACE FUNCTION fetchwork.leave_queue(clusters integer [], procs integer [])
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    gone_clusters integer[];
    gone_procs integer[];
    ctids tid[] := fetchwork.job_rows(clusters, procs);
BEGIN
    WITH gone AS (
        DELETE FROM fetchwork.job AS j
        WHERE j.ctid = ANY (ctids) AND j.job_status = 4
        RETURNING j AS job
    ),
    filed AS (
        INSERT INTO fetchwork.job_history
        SELECT e.*
        FROM gone AS g
        CROSS JOIN LATERAL fetchwork.ended_job(
            g.job, 4::smallint, (g.job).status_at, ((g.job).facts ->> 'RunId')::bigint, (g.job).facts,
            (g.job).facts ->> 'LastRemoteHost', NULL,
            (g.job).facts - ARRAY[
                'CompletionDate', 'ExitBySignal', 'ExitCode', 'ExitSignal', 'ExitStatus', 'RunId'
            ]
        ) AS e
    ),
    counted AS (
        -- for the owner only: autocluster and batch counted it as over when it ended
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, owner)
        SELECT o.autocluster_id, o.batch_id, c.sign * o.jobs, CASE WHEN c.sign < 0 THEN o.owner END
        FROM (
            SELECT (g.job).autocluster_id, (g.job).batch_id, (g.job).owner, count(*) AS jobs
            FROM gone AS g
            GROUP BY (g.job).autocluster_id, (g.job).batch_id, (g.job).owner
        ) AS o
        CROSS JOIN (VALUES (-1), (1)) AS c (sign)
    )
    SELECT array_agg((g.job).cluster_id), array_agg((g.job).proc_id)
    INTO gone_clusters, gone_procs
    FROM gone AS g;
    PERFORM fetchwork.note_files_over(gone_clusters, gone_procs);
    PERFORM fetchwork.materialize_after(gone_clusters, gone_procs, true);
    RETURN coalesce(cardinality(gone_clusters), 0);
END
$$;
