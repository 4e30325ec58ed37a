-- A URL to GET, PUT or DELETE one part of a content in a bucket, presigned for a quarter of an hour; a PUT
-- must send the part's size. The caller has checked the rights. NULL for a content in the database.
-- Errors: FWINV (no such part; a PUT of a content begun in this transaction, because a rollback would leave
-- an unknown object).
CREATE OR REPLACE FUNCTION fetchwork.part_url(method text, stored fetchwork.content, n integer)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    bytes bigint := least(fetchwork.part_bytes(), stored.size - n::bigint * fetchwork.part_bytes());
BEGIN
    IF stored.bucket_id IS NULL THEN
        RETURN NULL;
    END IF;
    IF n < 0 OR bytes <= 0 THEN
        RAISE EXCEPTION 'content % has no part %', stored.content_id, n USING ERRCODE = 'FWINV';
    END IF;
    IF method = 'PUT' AND stored.begun_at = now() THEN
        RAISE EXCEPTION 'content % was begun in this transaction; allowed: to commit that first',
            stored.content_id USING ERRCODE = 'FWINV';
    END IF;
    RETURN (
        SELECT fetchwork.presigned_url(
                method, b.origin, format('%s/%s/%s', b.path, stored.object, n), b.region,
                b.access_key_id, b.secret,
                length => CASE WHEN method = 'PUT' THEN bytes END, lifetime_s => 900
            )
        FROM fetchwork.bucket AS b
        WHERE b.bucket_id = stored.bucket_id
    );
END
$$;
