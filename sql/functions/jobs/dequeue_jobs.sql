-- Takes jobs out of the queue, and ends the demand whose last jobs they were. Returns how many waited there,
-- so that no claim has them or will have them. The caller has locked the jobs' rows. Waits for a claim of
-- another transaction that holds a row of "waiting", and then finds the row gone.
CREATE OR REPLACE FUNCTION fetchwork.dequeue_jobs(clusters integer [], procs integer [])
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    ctids tid[];
    left_autoclusters integer[];
    left_prios integer[];
    dequeued integer;
BEGIN
    SELECT array_agg(queued.ctid)
    INTO ctids
    FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
    CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
    CROSS JOIN LATERAL (
        SELECT w.ctid
        FROM fetchwork.waiting AS w
        WHERE w.autocluster_id = j.autocluster_id AND w.job_prio = j.job_prio AND w.position = j.position
            AND w.cluster_id = k.cluster_id AND w.proc_id = k.proc_id
        OFFSET 0
    ) AS queued;
    WITH gone AS (
        DELETE FROM fetchwork.waiting AS w
        WHERE w.ctid = ANY (ctids)
        RETURNING w.autocluster_id, w.job_prio
    )
    SELECT
        array_agg(p.autocluster_id ORDER BY p.autocluster_id, p.job_prio),
        array_agg(p.job_prio ORDER BY p.autocluster_id, p.job_prio),
        sum(p.jobs)
    INTO left_autoclusters, left_prios, dequeued
    FROM (
        SELECT g.autocluster_id, g.job_prio, count(*) AS jobs
        FROM gone AS g
        GROUP BY g.autocluster_id, g.job_prio
    ) AS p;
    -- in a statement of its own: the DELETE's does not see the rows as deleted
    PERFORM fetchwork.end_demand(p.autocluster_id, p.job_prio)
    FROM unnest(left_autoclusters, left_prios) AS p (autocluster_id, job_prio);
    RETURN coalesce(dequeued, 0);
END
$$;
