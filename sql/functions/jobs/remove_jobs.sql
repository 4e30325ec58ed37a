-- Removes jobs, for remove() and for policy. A job without a started run goes to history at once, with
-- ABORTED (009). A job with one is Removed (X) until its run ends; EVICTED and ABORTED come only then
-- (back_to_idle), so that a program that waits for them may clean up. A Completed job leaves the queue. The
-- caller has locked the jobs, of which none is Removed.
CREATE OR REPLACE FUNCTION fetchwork.remove_jobs(clusters integer [], procs integer [], reason text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    running_clusters integer[];
    running_procs integer[];
    ctids tid[];
BEGIN
    PERFORM fetchwork.leave_queue(clusters, procs);
    PERFORM fetchwork.dequeue_jobs(clusters, procs);
    PERFORM fetchwork.forget_bringing(clusters, procs);
    PERFORM fetchwork.end_live_runs(clusters, procs, 'remove', remove_jobs.reason);
    SELECT array_agg(k.cluster_id), array_agg(k.proc_id)
    INTO running_clusters, running_procs
    FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
    -- not an EXISTS, which becomes a join (job_of)
    WHERE (
        SELECT r.run_id
        FROM fetchwork.run AS r
        WHERE r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
    ) IS NOT NULL;

    ctids := fetchwork.job_rows(running_clusters, running_procs);
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held)
    SELECT j.autocluster_id, j.batch_id, -count(*)
    FROM fetchwork.job AS j
    WHERE j.ctid = ANY (ctids) AND j.job_status = 5
    GROUP BY j.autocluster_id, j.batch_id;
    UPDATE fetchwork.job AS j
    SET job_status = 3,
        status_at = clock_timestamp(),
        last_reason = remove_jobs.reason,
        facts = j.facts || jsonb_build_object('LastJobStatus', j.job_status)
            || fetchwork.last_hold(j.job_status, j.hold_reason, j.hold_code, j.hold_subcode),
        hold_reason = NULL,
        hold_code = NULL,
        hold_subcode = NULL,
        not_before = NULL
    WHERE j.ctid = ANY (ctids);

    ctids := fetchwork.job_rows(clusters, procs);
    WITH removed AS (
        DELETE FROM fetchwork.job AS j
        WHERE j.ctid = ANY (ctids) AND j.job_status <> 3
        RETURNING j AS job
    ),
    filed AS (
        INSERT INTO fetchwork.job_history
        SELECT e.*
        FROM (
            -- in the order of their ids, so that their end times have it too
            SELECT i.job, clock_timestamp() AS at
            FROM (
                SELECT g.job
                FROM removed AS g
                ORDER BY (g.job).cluster_id, (g.job).proc_id
            ) AS i
        ) AS r
        CROSS JOIN LATERAL fetchwork.ended_job(
            r.job, 3::smallint, r.at, (r.job).run_id, NULL, NULL, remove_jobs.reason,
            (r.job).facts || jsonb_build_object('LastJobStatus', (r.job).job_status)
            || fetchwork.last_hold(
                (r.job).job_status, (r.job).hold_reason, (r.job).hold_code, (r.job).hold_subcode
            )
        ) AS e
    ),
    told AS (
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
        SELECT 9, (r.job).cluster_id, (r.job).proc_id, jsonb_build_object('Reason', remove_jobs.reason)
        FROM removed AS r
        ORDER BY (r.job).cluster_id, (r.job).proc_id
    )
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held, removed, owner)
    SELECT
        (r.job).autocluster_id, (r.job).batch_id, -count(*),
        -count(*) FILTER (WHERE (r.job).job_status = 5), count(*), (r.job).owner
    FROM removed AS r
    GROUP BY (r.job).autocluster_id, (r.job).batch_id, (r.job).owner;
    -- the jobs that are still there follow when they end
    PERFORM fetchwork.note_files_over(clusters, procs);
    PERFORM fetchwork.materialize_after(clusters, procs, NULL);

    -- the jobs of others that still run follow when these have ended (retire_job)
    PERFORM fetchwork.remove_others(
        ARRAY(
            SELECT DISTINCT k.cluster_id
            FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
            WHERE (
                SELECT j.cluster_id
                FROM fetchwork.job AS j
                WHERE j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
            ) IS NULL
        ),
        remove_jobs.reason
    );
END
$$;
