-- The number of jobs in the queue, in all and by state, for each of these ids ("42.0", or "42" for a whole
-- cluster), of the jobs that the caller may see; 0 for an unknown id. Each id is looked up once by the key of
-- "job", which the view jobs can't do for many ids at a time.
CREATE OR REPLACE FUNCTION fetchwork.named_jobs(ids text [])
RETURNS TABLE (
    id text, jobs bigint, idle bigint, running bigint, removed bigint, held bigint, completed bigint,
    suspended bigint
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    role name := fetchwork.invoker();
    sees_all boolean := fetchwork.sees_all(role);
    own text[] := fetchwork.own_owners(role);
BEGIN
    RETURN QUERY
    SELECT
        named.id,
        -- a late cluster may have no job yet
        greatest(
            count(j.cluster_id),
            (
                SELECT count(*)
                FROM fetchwork.factory AS f
                WHERE f.cluster_id = parsed.cluster_id
                    AND parsed.proc_id IS NULL
                    AND (sees_all OR f.owner = ANY (own))
            )
        ),
        count(*) FILTER (WHERE j.job_status = 1),
        count(*) FILTER (WHERE j.job_status IN (2, 6)),
        count(*) FILTER (WHERE j.job_status = 3),
        count(*) FILTER (WHERE j.job_status = 5),
        count(*) FILTER (WHERE j.job_status = 4),
        count(*) FILTER (WHERE j.job_status = 7)
    FROM (SELECT DISTINCT i.id FROM unnest(named_jobs.ids) AS i (id)) AS named
    CROSS JOIN LATERAL fetchwork.parse_job_id(named.id) AS parsed
    LEFT JOIN fetchwork.job AS j ON j.cluster_id = parsed.cluster_id
        AND j.proc_id >= coalesce(parsed.proc_id, 0)
        AND j.proc_id <= coalesce(parsed.proc_id, 2147483647)
        AND (sees_all OR j.owner = ANY (own))
    GROUP BY named.id, parsed.cluster_id, parsed.proc_id;
END
$$;
