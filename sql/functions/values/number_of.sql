-- A JSON number as a number; NULL for other values, and for numbers that no clock or counter shows: a report
-- comes from the job's own account and may contain any value.
CREATE OR REPLACE FUNCTION fetchwork.number_of(value jsonb)
RETURNS double precision
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN jsonb_typeof(value) = 'number' AND abs(value::numeric) < 1e18 THEN value::numeric::double precision
END;
