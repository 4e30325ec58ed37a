-- In HTCondor's JSON form an expression is the string "/Expr(...)/". NULL-safe; false for anything but such a
-- string.
CREATE OR REPLACE FUNCTION fetchwork.is_expression(value jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN coalesce(jsonb_typeof(value) = 'string' AND (value #>> '{}') ~ '^/Expr\(.*\)/$', false);
