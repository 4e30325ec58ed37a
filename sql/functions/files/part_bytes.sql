-- Bytes of one object of a content whose bytes are in a bucket; the last one has the rest. A whole number of
-- chunks.
CREATE OR REPLACE FUNCTION fetchwork.part_bytes()
RETURNS bigint
LANGUAGE sql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
RETURN 8 * 1024 * 1024::bigint;
