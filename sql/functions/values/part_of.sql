-- The attributes of an ad with these names, which are in lower case, as the result's are.
CREATE OR REPLACE FUNCTION fetchwork.part_of(ad jsonb, names text [])
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
RETURN (
    SELECT coalesce(jsonb_object_agg(lower(a.key), a.value), '{}')
    FROM jsonb_each(part_of.ad) AS a
    WHERE lower(a.key) = ANY (part_of.names)
);
