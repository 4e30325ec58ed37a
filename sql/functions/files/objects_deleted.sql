-- Notes that objects of objects_over were deleted; returns how many were noted. Repeating a call is harmless.
CREATE OR REPLACE FUNCTION fetchwork.objects_deleted(objects uuid [], ns integer [])
RETURNS bigint
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_trusted_host();
    WITH gone AS (
        DELETE FROM fetchwork.object_over AS o
        USING unnest(objects_deleted.objects, objects_deleted.ns) AS k (object, n)
        WHERE o.object = k.object
            AND o.n = k.n
            -- before that, a URL could still make the object again
            AND o.over_at < clock_timestamp() - interval '20 minutes'
        RETURNING o.n
    )
    SELECT count(*)
    FROM gone;
END;
