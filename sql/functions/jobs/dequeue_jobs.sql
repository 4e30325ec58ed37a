-- Takes jobs out of the queue, and ends the demand that they were the last of. Returns the places in the
-- arrays (from 1) of those that were waiting there, so that no claim has them and none will. The caller has
-- locked the jobs' rows. A claim in another transaction may hold a row of "waiting": then this waits for it,
-- and finds the row gone.
CREATE OR REPLACE FUNCTION fetchwork.dequeue_jobs(clusters integer [], procs integer [])
RETURNS integer []
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    left_autoclusters integer[];
    left_prios integer[];
    waited integer[];
BEGIN
    WITH gone AS (
        DELETE FROM fetchwork.waiting AS w
        USING unnest(clusters, procs) WITH ORDINALITY AS k (cluster_id, proc_id, nth)
        JOIN fetchwork.job AS j ON j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
        WHERE w.autocluster_id = j.autocluster_id AND w.job_prio = j.job_prio AND w.position = j.position
            AND w.cluster_id = j.cluster_id AND w.proc_id = j.proc_id
        RETURNING w.autocluster_id, w.job_prio, k.nth::integer AS nth
    ),
    pairs AS (
        SELECT g.autocluster_id, g.job_prio
        FROM gone AS g
        GROUP BY g.autocluster_id, g.job_prio
    )
    SELECT
        (SELECT array_agg(g.nth) FROM gone AS g),
        (SELECT array_agg(p.autocluster_id ORDER BY p.autocluster_id, p.job_prio) FROM pairs AS p),
        (SELECT array_agg(p.job_prio ORDER BY p.autocluster_id, p.job_prio) FROM pairs AS p)
    INTO waited, left_autoclusters, left_prios;
    -- afterwards, and not in that statement, which does not see what it has deleted
    PERFORM fetchwork.end_demand(p.autocluster_id, p.job_prio)
    FROM unnest(left_autoclusters, left_prios) AS p (autocluster_id, job_prio);
    RETURN coalesce(waited, '{}');
END
$$;
