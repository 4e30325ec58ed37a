-- Every identifier in an attribute's expression, in lower case: a superset of its references (words inside
-- strings are included, which costs at most one more autocluster). Empty for a literal.
CREATE OR REPLACE FUNCTION fetchwork.expression_names(value jsonb)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN fetchwork.is_expression(value) THEN (
        SELECT coalesce(array_agg(DISTINCT lower(identifier.word[1])), '{}')
        FROM regexp_matches(substr(value #>> '{}', 7), '[A-Za-z_][A-Za-z0-9_]*', 'g') AS identifier (word)
    )
    ELSE '{}'
END;
