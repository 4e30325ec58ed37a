-- An attribute of an ad by its name in lower case, in any spelling in the ad. For names without a spelling in
-- fetchwork.attribute; "->" is faster for the others.
CREATE OR REPLACE FUNCTION fetchwork.attribute_of(ad jsonb, name text)
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.value
    FROM jsonb_each(attribute_of.ad) AS e
    WHERE lower(e.key) = attribute_of.name
    LIMIT 1;
END;
