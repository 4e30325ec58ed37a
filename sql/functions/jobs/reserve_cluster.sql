-- A cluster id for submit_cluster, for ads that hold the id themselves ($(ClusterId) in a file name). An id
-- that is not used leaves a gap, which does no harm.
CREATE OR REPLACE FUNCTION fetchwork.reserve_cluster()
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT nextval('fetchwork.cluster_id')::integer;
END;
