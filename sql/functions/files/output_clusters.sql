-- The clusters with undelivered outputs of Owners that the caller may name, from an index of outputs alone. A
-- caller of job_outputs then selects among the jobs of these clusters, not in all of history. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.output_clusters()
RETURNS integer []
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    own text[] := fetchwork.own_owners(role);
BEGIN
    RETURN coalesce(array_agg(DISTINCT f.cluster_id), '{}')
    FROM fetchwork.job_file AS f
    WHERE f.direction = 'output' AND (fetchwork.is_admin(role) OR f.owner = ANY (own));
END
$$;
