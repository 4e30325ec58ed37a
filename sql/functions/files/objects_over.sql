-- Objects in buckets of deleted contents, the oldest of each bucket, with URLs to delete them. They have
-- waited until no valid URL can make them again.
CREATE OR REPLACE FUNCTION fetchwork.objects_over(most integer DEFAULT 200)
RETURNS TABLE (bucket_id integer, object uuid, n integer, url text)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_trusted_host();
    SELECT
        b.bucket_id, o.object, o.n,
        fetchwork.presigned_url(
            'DELETE', b.origin, format('%s/%s/%s', b.path, o.object, o.n), b.region,
            b.access_key_id, b.secret, lifetime_s => 900
        )
    FROM fetchwork.bucket AS b
    CROSS JOIN LATERAL (
        SELECT v.object, v.n
        FROM fetchwork.object_over AS v
        WHERE v.bucket_id = b.bucket_id
            AND v.over_at < clock_timestamp() - interval '20 minutes'
        ORDER BY v.over_at
        LIMIT objects_over.most
    ) AS o;
END;
