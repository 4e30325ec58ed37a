-- A URL that allows its bearer one method on one object for a while, signed with the key of its bucket: AWS'
-- Signature Version 4, in the query. path is encoded and begins with "/"; a sent body must have exactly
-- "length" bytes, if that is given. The URL is dated a little back, as clocks differ.
CREATE OR REPLACE FUNCTION fetchwork.presigned_url(
    method text,
    origin text,
    path text,
    region text,
    access_key_id text,
    secret text,
    session_token text DEFAULT NULL,
    length bigint DEFAULT NULL,
    lifetime_s integer DEFAULT 3600,
    at timestamptz DEFAULT clock_timestamp() - interval '5 seconds'
)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    host text := regexp_replace(origin, '^[a-z]+://', '');
    instant text := to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISS"Z"');
    day text := left(instant, 8);
    scope text := format('%s/%s/s3/aws4_request', day, region);
    signed_headers text := CASE WHEN length IS NULL THEN 'host' ELSE 'content-length;host' END;
    headers text := CASE WHEN length IS NULL THEN '' ELSE format(E'content-length:%s\n', length) END
        || format(E'host:%s\n', host);
    words text := 'X-Amz-Algorithm=AWS4-HMAC-SHA256'
        || '&X-Amz-Credential=' || fetchwork.uri_encoded(format('%s/%s', access_key_id, scope))
        || '&X-Amz-Date=' || instant
        || '&X-Amz-Expires=' || lifetime_s
        || CASE
            WHEN session_token IS NULL THEN ''
            ELSE '&X-Amz-Security-Token=' || fetchwork.uri_encoded(session_token)
        END
        || '&X-Amz-SignedHeaders=' || fetchwork.uri_encoded(signed_headers);
    request text := concat_ws(E'\n', method, path, words, headers, signed_headers, 'UNSIGNED-PAYLOAD');
    -- each part is signed with the key made from the part before
    key bytea := convert_to('AWS4' || secret, 'UTF8');
    part text;
BEGIN
    FOREACH part IN ARRAY ARRAY[
        day, region, 's3', 'aws4_request',
        concat_ws(
            E'\n', 'AWS4-HMAC-SHA256', instant, scope, encode(sha256(convert_to(request, 'UTF8')), 'hex')
        )
    ] LOOP
        key := fetchwork.hmac_sha256(key, convert_to(part, 'UTF8'));
    END LOOP;
    RETURN format('%s%s?%s&X-Amz-Signature=%s', origin, path, words, encode(key, 'hex'));
END
$$;
