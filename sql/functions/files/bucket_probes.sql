-- URLs with which a host checks that it reaches the buckets of large files and that they accept their keys:
-- each gets an object that never exists, from every bucket that takes new contents or has any. For the
-- doctor.
CREATE OR REPLACE FUNCTION fetchwork.bucket_probes()
RETURNS TABLE (bucket text, url text)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        b.url,
        fetchwork.presigned_url(
            'GET', b.origin, b.path || '/doctor', b.region, b.access_key_id, b.secret, lifetime_s => 900
        )
    FROM fetchwork.bucket AS b
    WHERE b.used
        OR EXISTS (SELECT FROM fetchwork.content AS c WHERE c.bucket_id = b.bucket_id)
    ORDER BY b.bucket_id;
END;
