-- The bytes of one object of a content in a bucket, a whole number of chunks; the last object has the rest.
CREATE OR REPLACE FUNCTION fetchwork.part_bytes()
RETURNS bigint
LANGUAGE sql
IMMUTABLE
RETURN 8 * 1024 * 1024::bigint;
