-- Every identifier in an attribute's expression, lower case: a superset of what it refers to (words inside
-- strings are in it too, which costs at most an autocluster more). Empty for a literal.
CREATE OR REPLACE FUNCTION fetchwork.expression_names(value jsonb)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN CASE
    WHEN fetchwork.is_expression(value) THEN (
        SELECT coalesce(array_agg(DISTINCT lower(identifier.word[1])), '{}')
        FROM regexp_matches(substr(value #>> '{}', 7), '[A-Za-z_][A-Za-z0-9_]*', 'g') AS identifier (word)
    )
    ELSE '{}'
END;
