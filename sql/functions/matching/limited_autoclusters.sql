-- Those of these autoclusters for which a claim has to count: they name a concurrency limit, or their queue,
-- owner or submitter has a maximum of running jobs, a limit on starts or the quota of a group, or a group of
-- the submitter's a limit on starts.
CREATE OR REPLACE FUNCTION fetchwork.limited_autoclusters(autoclusters integer [])
RETURNS SETOF integer
LANGUAGE plpgsql
STABLE
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.autocluster_id, a.queue, a.owner, a.submitter, a.concurrency_limits
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = ANY (limited_autoclusters.autoclusters)
    )
    SELECT a.autocluster_id
    FROM asked AS a
    LEFT JOIN fetchwork.queue AS q ON q.name = a.queue
    LEFT JOIN fetchwork.submitter AS s ON s.name = a.submitter
    WHERE num_nonnulls(a.concurrency_limits, q.max_running, s.max_running) > 0
        OR a.queue IN (SELECT l.name FROM fetchwork.start_limit AS l WHERE l.scope = 'queue')
        OR a.owner IN (SELECT l.name FROM fetchwork.start_limit AS l WHERE l.scope = 'owner')
        OR CASE
            WHEN EXISTS (SELECT FROM fetchwork.start_limit AS l WHERE l.scope = 'group')
                THEN fetchwork.group_path(a.submitter) && ARRAY(
                    SELECT l.name
                    FROM fetchwork.start_limit AS l
                    WHERE l.scope = 'group'
                )
            ELSE false
        END
        OR a.submitter IN (
            SELECT b.submitter
            FROM fetchwork.quotas_of(ARRAY(SELECT k.submitter FROM asked AS k)) AS b
        );
END
$$;
