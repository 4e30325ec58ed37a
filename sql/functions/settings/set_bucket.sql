-- Sets the bucket for the bytes of new contents of more than "above" bytes; NULL as the url: no bucket.
-- Contents in another bucket stay there, and go with their jobs; the key of a known bucket may be changed.
-- url: as object_of_url reads it, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, s3://HOST/BUCKET/PREFIX, and
-- http(s)://HOST/BUCKET/PREFIX of any server that speaks S3. Errors: FWDEN, FWINV (url, key).
CREATE OR REPLACE FUNCTION fetchwork.set_bucket(
    url text,
    access_key_id text DEFAULT NULL,
    secret text DEFAULT NULL,
    region text DEFAULT NULL,
    above bigint DEFAULT 67108864
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    plain text := rtrim(set_bucket.url, '/');
    words text[] := regexp_match(plain, '^(https?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?)(/[^?#]+)$');
    target record;
BEGIN
    PERFORM fetchwork.require_admin();
    PERFORM fetchwork.note_action('set_bucket', NULL, NULL, set_bucket.url, NULL);
    UPDATE fetchwork.bucket AS b
    SET used = false
    WHERE b.used;
    IF set_bucket.url IS NULL THEN
        RETURN;
    END IF;
    IF words IS NOT NULL THEN
        SELECT
            words[1] AS origin, fetchwork.uri_encoded(words[2], slashes => true) AS path,
            coalesce(set_bucket.region, 'us-east-1') AS region
        INTO target;
    ELSE
        SELECT o.origin, left(o.path, -2) AS path, o.region
        INTO target
        FROM fetchwork.object_of_url(plain || '/_', set_bucket.region) AS o;
    END IF;
    IF access_key_id IS NULL
        OR secret IS NULL
        OR concat(access_key_id, secret) !~ '^[!-~]+$'
        OR octet_length(access_key_id) NOT BETWEEN 1 AND 256
        OR octet_length(secret) NOT BETWEEN 1 AND 256
        OR set_bucket.above < fetchwork.chunk_bytes()
    THEN
        RAISE EXCEPTION 'bucket % lacks a key, or is for small files; allowed: a key of ASCII without '
            'blanks, and files of more than % bytes or above',
            quote_nullable(plain), fetchwork.chunk_bytes() USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.bucket AS b (url, origin, path, region, access_key_id, secret, above, used)
    VALUES (
        plain, target.origin, target.path, target.region, set_bucket.access_key_id, set_bucket.secret,
        set_bucket.above, true
    )
    ON CONFLICT ON CONSTRAINT bucket_url_key DO UPDATE SET
        region = excluded.region, access_key_id = excluded.access_key_id, secret = excluded.secret,
        above = excluded.above, used = true;
END
$$;
