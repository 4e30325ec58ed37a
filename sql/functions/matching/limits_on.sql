-- The limits on the running jobs of these autoclusters: a row for each autocluster and limit, with the
-- limit's maximum and the amount that one more run of the autocluster takes. scope is "limit" (a concurrency
-- limit; one without a maximum is left out), "queue" or "submitter" (their maxima of running jobs) or "group"
-- (a quota without surplus, where amount is NULL: the run's weight). limit_uses has the use of each.
CREATE OR REPLACE FUNCTION fetchwork.limits_on(autoclusters integer [])
RETURNS TABLE (
    autocluster_id integer,
    scope text,
    name text,
    amount double precision,
    maximum double precision
)
LANGUAGE plpgsql
STABLE
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.autocluster_id, a.queue, a.submitter, a.concurrency_limits
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = ANY (limits_on.autoclusters)
    ),
    named AS MATERIALIZED (
        SELECT k.concurrency_limits, n.name, n.amount
        FROM (
            SELECT DISTINCT a.concurrency_limits
            FROM asked AS a
            WHERE a.concurrency_limits IS NOT NULL
        ) AS k
        CROSS JOIN LATERAL fetchwork.named_limits(k.concurrency_limits) AS n
    )
    SELECT a.autocluster_id, 'limit', l.name, n.amount, l.maximum
    FROM asked AS a
    JOIN named AS n ON n.concurrency_limits = a.concurrency_limits
    JOIN fetchwork.concurrency_limit AS l ON l.name = n.name
    UNION ALL
    SELECT a.autocluster_id, 'queue', q.name, 1, q.max_running
    FROM asked AS a
    JOIN fetchwork.queue AS q ON q.name = a.queue AND q.max_running IS NOT NULL
    UNION ALL
    SELECT a.autocluster_id, 'submitter', s.name, 1, s.max_running
    FROM asked AS a
    JOIN fetchwork.submitter AS s ON s.name = a.submitter AND s.max_running IS NOT NULL
    UNION ALL
    -- a new group may not be counted yet
    SELECT a.autocluster_id, 'group', g.name, NULL, coalesce(c.subtree_quota, q.quota, 0)
    FROM asked AS a
    JOIN fetchwork.quotas_of(ARRAY(SELECT k.submitter FROM asked AS k)) AS g ON g.submitter = a.submitter
    JOIN fetchwork.accounting_group AS q ON q.name = g.name
    LEFT JOIN fetchwork.group_count AS c ON c.name = g.name;
END
$$;
