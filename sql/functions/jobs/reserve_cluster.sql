-- A cluster id for submit_cluster, for those whose ads hold the id ($(ClusterId) in a file name). An id that is not used is a gap, which harms nobody.
CREATE OR REPLACE FUNCTION fetchwork.reserve_cluster()
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT nextval('fetchwork.cluster_id')::integer;
END;
