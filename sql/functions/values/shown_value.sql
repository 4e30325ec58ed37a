-- The beginning of an attribute's value as people write it, for a message: an expression without its frame.
-- At most 60 characters.
CREATE OR REPLACE FUNCTION fetchwork.shown_value(value jsonb)
RETURNS text
LANGUAGE sql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
RETURN left(
    CASE
        WHEN fetchwork.is_expression(value) THEN substr(value #>> '{}', 7, length(value #>> '{}') - 8)
        ELSE value::text
    END,
    60
);
