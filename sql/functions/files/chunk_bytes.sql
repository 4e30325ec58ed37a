-- The size of a content's chunks; the last one may be shorter.
CREATE OR REPLACE FUNCTION fetchwork.chunk_bytes()
RETURNS integer
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN 1048576;
