-- The clusters of jobs that have left outputs which nobody has brought back, of Owners that the caller may
-- name. Who is to bring those of some jobs looks at the jobs of these alone, and not at all of history.
-- For job_outputs' callers; an index has these files alone. Locks nothing.
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
