-- One Idle job of each of some autoclusters that the caller may see: the job that would be claimed first,
-- else one that waits for its next try. A job that is being offered at this moment is neither.
CREATE OR REPLACE FUNCTION fetchwork.first_idle(autoclusters integer[])
RETURNS TABLE (autocluster_id integer, cluster_id integer, proc_id integer)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT a.autocluster_id, f.cluster_id, f.proc_id
    FROM fetchwork.autocluster AS a
    CROSS JOIN LATERAL (
        SELECT *
        FROM (
            SELECT w.cluster_id, w.proc_id
            FROM fetchwork.waiting AS w
            WHERE w.autocluster_id = a.autocluster_id
            ORDER BY w.job_prio DESC, w.position
            LIMIT 1
        ) AS head
        UNION ALL
        SELECT *
        FROM (
            SELECT j.cluster_id, j.proc_id
            FROM fetchwork.job AS j
            WHERE j.not_before IS NOT NULL AND j.autocluster_id = a.autocluster_id
            LIMIT 1
        ) AS later
        LIMIT 1
    ) AS f
    WHERE a.autocluster_id = ANY (first_idle.autoclusters)
        AND (
            fetchwork.sees_all(fetchwork.invoker())
            OR a.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        );
END;
