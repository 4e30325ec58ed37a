-- A JSON number as a number; NULL for anything else (a report may hold any value).
CREATE OR REPLACE FUNCTION fetchwork.number_of(value jsonb)
RETURNS double precision
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::double precision END;
