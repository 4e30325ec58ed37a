-- Lets the queue, the counts and the live runs follow jobs whose autocluster, batch or JobPrio has changed
-- from what the arrays say, for edit() and note_significant(). The caller has locked the jobs.
--
-- A job that a claim is taking at the moment is waited for, and has a run then.
CREATE OR REPLACE FUNCTION fetchwork.move_jobs(
    clusters integer [],
    procs integer [],
    old_autoclusters integer [],
    old_batches integer [],
    old_prios integer []
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    moved_clusters integer[];
    moved_procs integer[];
    from_autoclusters integer[];
    from_batches integer[];
    from_prios integer[];
BEGIN
    SELECT
        array_agg(k.cluster_id), array_agg(k.proc_id), array_agg(k.autocluster_id), array_agg(k.batch_id),
        array_agg(k.job_prio)
    INTO moved_clusters, moved_procs, from_autoclusters, from_batches, from_prios
    FROM unnest(clusters, procs, old_autoclusters, old_batches, old_prios)
        AS k (cluster_id, proc_id, autocluster_id, batch_id, job_prio)
    JOIN fetchwork.job AS j ON j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
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
    JOIN fetchwork.job AS j ON j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
    CROSS JOIN LATERAL (
        VALUES
            (k.autocluster_id, k.batch_id, -1, CASE WHEN j.job_status = 5 THEN -1 ELSE 0 END),
            (j.autocluster_id, j.batch_id, 1, CASE WHEN j.job_status = 5 THEN 1 ELSE 0 END)
    ) AS m (autocluster_id, batch_id, jobs, held)
    -- one that has ended counts no more
    WHERE j.job_status <> 4
    GROUP BY m.autocluster_id, m.batch_id;

    UPDATE fetchwork.waiting AS w
    SET autocluster_id = j.autocluster_id, job_prio = j.job_prio
    FROM unnest(moved_clusters, moved_procs, from_autoclusters, from_prios)
        AS k (cluster_id, proc_id, autocluster_id, job_prio)
    JOIN fetchwork.job AS j ON j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
    WHERE w.autocluster_id = k.autocluster_id AND w.job_prio = k.job_prio AND w.position = j.position
        AND w.cluster_id = j.cluster_id AND w.proc_id = j.proc_id
        AND (j.autocluster_id, j.job_prio) <> (k.autocluster_id, k.job_prio);
    -- counts and limits take the live run's autocluster for its job's
    UPDATE fetchwork.run AS r
    SET autocluster_id = j.autocluster_id
    FROM unnest(moved_clusters, moved_procs) AS k (cluster_id, proc_id)
    JOIN fetchwork.job AS j ON j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
    WHERE r.cluster_id = k.cluster_id
        AND r.proc_id = k.proc_id
        AND r.autocluster_id <> j.autocluster_id;

    PERFORM fetchwork.ensure_demand(d.autocluster_id, d.job_prio)
    FROM (
        SELECT DISTINCT j.autocluster_id, j.job_prio
        FROM unnest(moved_clusters, moved_procs) AS k (cluster_id, proc_id)
        JOIN fetchwork.job AS j ON j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
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
