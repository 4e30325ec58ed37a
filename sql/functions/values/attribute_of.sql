-- An attribute of an ad by its name in lower case, whatever its spelling in the ad. For names that
-- fetchwork.attribute does not spell; those are faster by "->".
CREATE OR REPLACE FUNCTION fetchwork.attribute_of(ad jsonb, name text)
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT e.value
    FROM jsonb_each(attribute_of.ad) AS e
    WHERE lower(e.key) = attribute_of.name
    LIMIT 1;
END;
