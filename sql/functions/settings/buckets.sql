-- The buckets, without their keys, for the administrator. Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.buckets()
RETURNS TABLE (url text, used boolean, above bigint, contents bigint, bytes numeric, objects_over bigint)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    RETURN QUERY
    SELECT
        b.url, b.used, b.above, count(c.content_id), coalesce(sum(c.size), 0),
        (SELECT count(*) FROM fetchwork.object_over AS o WHERE o.bucket_id = b.bucket_id)
    FROM fetchwork.bucket AS b
    LEFT JOIN fetchwork.content AS c ON c.bucket_id = b.bucket_id
    GROUP BY b.bucket_id
    ORDER BY b.bucket_id;
END
$$;
