-- Notes that objects of objects_over could not be deleted although their bucket answers: they queue behind
-- the other objects and are tried again. Repeating a call is harmless.
CREATE OR REPLACE FUNCTION fetchwork.postpone_objects(objects uuid [], ns integer [])
RETURNS void
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_trusted_host();
    UPDATE fetchwork.object_over AS o
    SET over_at = clock_timestamp()
    FROM unnest(postpone_objects.objects, postpone_objects.ns) AS k (object, n)
    WHERE o.object = k.object
        AND o.n = k.n;
END;
