-- Updates the queue, the counts and the live runs after the autocluster, batch or JobPrio of jobs has changed
-- from the values in the arrays, for edit(), release_jobs() and ask_for_more(). Waits for a claim
-- that is taking such a job, which then has a run. The caller has locked the jobs.
CREATE OR REPLACE FUNCTION fetchwork.move_jobs(
    clusters integer [],
    procs integer [],
    old_autoclusters integer [],
    old_batches integer [],
    old_prios integer []
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    moved_clusters integer[];
    moved_procs integer[];
    from_autoclusters integer[];
    from_batches integer[];
    from_prios integer[];
    moved record;
BEGIN
    SELECT
        array_agg(k.cluster_id), array_agg(k.proc_id), array_agg(k.autocluster_id), array_agg(k.batch_id),
        array_agg(k.job_prio)
    INTO moved_clusters, moved_procs, from_autoclusters, from_batches, from_prios
    FROM unnest(clusters, procs, old_autoclusters, old_batches, old_prios)
        AS k (cluster_id, proc_id, autocluster_id, batch_id, job_prio)
    CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
    WHERE j.autocluster_id <> k.autocluster_id
        OR j.batch_id IS DISTINCT FROM k.batch_id
        OR j.job_prio <> k.job_prio;
    IF moved_clusters IS NULL THEN
        RETURN;
    END IF;

    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held)
    SELECT m.autocluster_id, m.batch_id, sum(m.jobs), sum(m.held)
    FROM unnest(moved_clusters, moved_procs, from_autoclusters, from_batches)
        AS k (cluster_id, proc_id, autocluster_id, batch_id)
    CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
    CROSS JOIN LATERAL (
        VALUES
            (k.autocluster_id, k.batch_id, -1, CASE WHEN j.job_status = 5 THEN -1 ELSE 0 END),
            (j.autocluster_id, j.batch_id, 1, CASE WHEN j.job_status = 5 THEN 1 ELSE 0 END)
    ) AS m (autocluster_id, batch_id, jobs, held)
    -- an ended job no longer counts
    WHERE j.job_status <> 4
    GROUP BY m.autocluster_id, m.batch_id;

    FOR moved IN
        SELECT j.autocluster_id, j.job_prio, array_agg(named.ctid) AS ctids
        FROM unnest(moved_clusters, moved_procs, from_autoclusters, from_prios)
            AS k (cluster_id, proc_id, autocluster_id, job_prio)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        -- OFFSET 0: as in job_of
        CROSS JOIN LATERAL (
            SELECT w.ctid
            FROM fetchwork.waiting AS w
            WHERE w.autocluster_id = k.autocluster_id
                AND w.job_prio = k.job_prio
                AND w.position = j.position
                AND w.cluster_id = k.cluster_id
                AND w.proc_id = k.proc_id
            OFFSET 0
        ) AS named
        WHERE (j.autocluster_id, j.job_prio) <> (k.autocluster_id, k.job_prio)
        GROUP BY j.autocluster_id, j.job_prio
    LOOP
        -- only a claim changes these rows without the lock of their jobs, and a claim deletes them
        UPDATE fetchwork.waiting AS w
        SET autocluster_id = moved.autocluster_id, job_prio = moved.job_prio
        WHERE w.ctid = ANY (moved.ctids);
    END LOOP;
    -- counts and limits use the live run's autocluster for its job; one by one, because beat() moves runs'
    -- rows
    FOR moved IN
        SELECT r.run_id, j.autocluster_id
        FROM unnest(moved_clusters, moved_procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        CROSS JOIN LATERAL (
            SELECT r.run_id, r.autocluster_id
            FROM fetchwork.run AS r
            WHERE r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
            OFFSET 0
        ) AS r
        WHERE r.autocluster_id <> j.autocluster_id
    LOOP
        UPDATE fetchwork.run AS r
        SET autocluster_id = moved.autocluster_id
        WHERE r.run_id = moved.run_id;
    END LOOP;

    PERFORM fetchwork.ensure_demand(d.autocluster_id, d.job_prio)
    FROM (
        SELECT DISTINCT j.autocluster_id, j.job_prio
        FROM unnest(moved_clusters, moved_procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        WHERE j.job_status = 1
        -- in one order, so that two callers can't wait for each other
        ORDER BY j.autocluster_id, j.job_prio
    ) AS d;
    PERFORM fetchwork.end_demand(d.autocluster_id, d.job_prio)
    FROM (
        SELECT DISTINCT k.autocluster_id, k.job_prio
        FROM unnest(from_autoclusters, from_prios) AS k (autocluster_id, job_prio)
        ORDER BY k.autocluster_id, k.job_prio
    ) AS d;
END
$$;
