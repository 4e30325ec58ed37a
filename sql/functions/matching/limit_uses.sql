-- The use of the limits on running jobs by live runs with a larger run_id than "after" (0: by all live runs).
-- scope and name are those of limits_on; a limit without use is left out. Jobs of the scheduler universe take
-- no slot and are not counted: a DAG must not block its nodes.
CREATE OR REPLACE FUNCTION fetchwork.limit_uses(after bigint DEFAULT 0)
RETURNS TABLE (scope text, name text, used double precision)
LANGUAGE plpgsql
STABLE
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH live AS MATERIALIZED (
        SELECT a.queue, a.submitter, a.concurrency_limits, r.runs, r.weight
        FROM (
            SELECT k.autocluster_id, count(*) AS runs, sum(k.weight) AS weight
            FROM (
                SELECT n.autocluster_id, n.weight
                FROM fetchwork.run AS n
                WHERE limit_uses.after = 0
                UNION ALL
                SELECT n.autocluster_id, n.weight
                FROM fetchwork.run AS n
                WHERE limit_uses.after > 0 AND n.run_id > limit_uses.after
            ) AS k
            GROUP BY k.autocluster_id
        ) AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
        WHERE a.access_point IS NULL
    )
    SELECT 'limit', l.name, sum(r.runs * n.amount)
    -- parsed once for all runs that name the same
    FROM (
        SELECT k.concurrency_limits, sum(k.runs) AS runs
        FROM live AS k
        WHERE k.concurrency_limits IS NOT NULL
        GROUP BY k.concurrency_limits
    ) AS r
    CROSS JOIN LATERAL fetchwork.named_limits(r.concurrency_limits) AS n
    JOIN fetchwork.concurrency_limit AS l ON l.name = n.name
    GROUP BY l.name
    UNION ALL
    SELECT 'queue', q.name, sum(r.runs)
    FROM live AS r
    JOIN fetchwork.queue AS q ON q.name = r.queue AND q.max_running IS NOT NULL
    GROUP BY q.name
    UNION ALL
    SELECT 'submitter', s.name, sum(r.runs)
    FROM live AS r
    JOIN fetchwork.submitter AS s ON s.name = r.submitter AND s.max_running IS NOT NULL
    GROUP BY s.name
    UNION ALL
    SELECT 'group', g.name, sum(r.weight)
    FROM (
        SELECT k.submitter, sum(k.weight) AS weight
        FROM live AS k
        GROUP BY k.submitter
    ) AS r
    CROSS JOIN LATERAL fetchwork.group_names(r.submitter) AS p
    JOIN fetchwork.accounting_group AS g ON lower(g.name) = p.name AND NOT g.accept_surplus
    GROUP BY g.name;
END
$$;
