-- The location of the object of an s3:// or gs:// URL, by HTCondor's rules (AWSv4-utils.cpp): s3://BUCKET/KEY
-- is Amazon's, in the given region; s3://BUCKET.s3.REGION.amazonaws.com/KEY contains the region;
-- s3://HOST/BUCKET/KEY is another server's, whose HOST has a dot, and maybe a port; gs://BUCKET/KEY is
-- Google's. path is encoded. Errors: FWINV.
CREATE OR REPLACE FUNCTION fetchwork.object_of_url(url text, in_region text)
RETURNS TABLE (origin text, path text, region text)
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    amazon constant text := '.amazonaws.com';
    plain text := regexp_replace(object_of_url.url, '^gs://', 's3://storage.googleapis.com/', 'i');
    words text[] := regexp_match(plain, '^s3://([A-Za-z0-9._-]+)(:[0-9]{1,5})?/(.+)$', 'i');
    host text := words[1];
    of_host text[];
    before text := '/';
BEGIN
    region := nullif(in_region, '');
    IF words IS NULL THEN
        RAISE EXCEPTION 'URL % names no object; allowed: s3://BUCKET/KEY, s3://HOST/BUCKET/KEY, '
            'gs://BUCKET/KEY',
            quote_nullable(left(object_of_url.url, 200)) USING ERRCODE = 'FWINV';
    END IF;
    IF strpos(host, '.') = 0 THEN
        IF region IS NULL AND (host <> lower(host) OR strpos(host, '_') > 0) THEN
            -- it can't be part of a host's name
            before := '/' || host || '/';
            host := 's3' || amazon;
        ELSE
            host := host || '.s3' || coalesce('.' || region, '') || amazon;
        END IF;
    ELSIF right(host, length(amazon)) = amazon THEN
        of_host := regexp_match(host, '^(.+)\.s3\.([^.]+)\.amazonaws\.com$');
        IF of_host IS NULL THEN
            RAISE EXCEPTION 'URL % names no bucket and region; allowed: '
                's3://BUCKET.s3.REGION.amazonaws.com/KEY',
                quote_nullable(left(object_of_url.url, 200)) USING ERRCODE = 'FWINV';
        END IF;
        region := of_host[2];
    END IF;
    origin := 'https://' || host || coalesce(words[2], '');
    path := before || fetchwork.uri_encoded(words[3], slashes => true);
    region := coalesce(region, 'us-east-1');
    RETURN NEXT;
END
$$;
