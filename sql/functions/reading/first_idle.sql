-- One Idle job of each autocluster that the caller may see, for the autoclusters with most Idle jobs: the
-- job that would be claimed first, else one that is not tried again yet. A job that is being offered at this
-- moment is neither. idle: the jobs of its autocluster that are Idle.
CREATE OR REPLACE FUNCTION fetchwork.first_idle(at_most integer)
RETURNS TABLE (cluster_id integer, proc_id integer, idle bigint)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT f.cluster_id, f.proc_id, t.idle::bigint
    FROM fetchwork.totals AS t
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = t.autoclusterid
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
    WHERE t.idle > 0
        AND (
            fetchwork.sees_all(fetchwork.invoker())
            OR a.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        )
    ORDER BY t.idle DESC, f.cluster_id, f.proc_id
    LIMIT first_idle.at_most;
END;
