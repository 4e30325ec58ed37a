-- The bucket for the bytes of a new content of this size; NULL: the database.
CREATE OR REPLACE FUNCTION fetchwork.bucket_for(size bigint)
RETURNS integer
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT b.bucket_id
    FROM fetchwork.bucket AS b
    WHERE b.used AND bucket_for.size > b.above;
END;
