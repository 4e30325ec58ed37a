-- In HTCondor's JSON form an expression is the string "/Expr(...)/". NULL-safe; false for anything but such a
-- string. Asked of every attribute of every submission: so it is one that the planner can write into its
-- callers, which a SET would prevent, and no regular expression.
CREATE OR REPLACE FUNCTION fetchwork.is_expression(value jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN coalesce(jsonb_typeof(value) = 'string' AND (value #>> '{}') LIKE '/Expr(%)/', false);
