-- A URL to PUT part n of a content that begin_content began in a bucket (writable_content; put_chunk without
-- bytes then notes the part), or to GET one (readable_content), presigned for a quarter of an hour; a PUT
-- must send the part's size. NULL for a content in the database, for one that may not be read, and if the run
-- is over. Locks nothing.
-- Errors: FWINV (no such part; a PUT of a content begun in this transaction, because a rollback would leave
-- an unknown object), FWNOT (a PUT of a complete one, which jobs may name), those of writable_content.
CREATE OR REPLACE FUNCTION fetchwork.content_url(
    method text,
    content_id bigint,
    n integer,
    run_id bigint DEFAULT NULL,
    token uuid DEFAULT NULL
)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored fetchwork.content;
    bytes bigint;
BEGIN
    IF method = 'PUT' THEN
        stored := fetchwork.writable_content(content_url.content_id, content_url.run_id, content_url.token);
    ELSIF method = 'GET' THEN
        stored := fetchwork.readable_content(content_url.content_id, content_url.run_id, content_url.token);
    END IF;
    IF method = 'PUT' AND stored.complete THEN
        RAISE EXCEPTION 'content % is complete', stored.content_id USING ERRCODE = 'FWNOT';
    END IF;
    IF stored.bucket_id IS NULL THEN
        RETURN NULL;
    END IF;
    bytes := least(fetchwork.part_bytes(), stored.size - n::bigint * fetchwork.part_bytes());
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
