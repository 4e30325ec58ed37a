-- A JSON number as an integer: a pid, an exit code. NULL for other values, as number_of.
CREATE OR REPLACE FUNCTION fetchwork.integer_of(value jsonb)
RETURNS integer
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN jsonb_typeof(value) = 'number' AND abs(value::numeric) < 2147483647 THEN value::numeric::integer
END;
