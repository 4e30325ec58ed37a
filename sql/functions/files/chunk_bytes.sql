-- The size of the chunks that contents are kept in, but for the last one of each.
CREATE OR REPLACE FUNCTION fetchwork.chunk_bytes()
RETURNS integer
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN 1048576;
