-- Whether a value is an expression: in HTCondor's JSON form the string "/Expr(...)/". Not null. Called for
-- every attribute of every submission, so without a SET, which would keep the planner from inlining it, and
-- without a regular expression.
CREATE OR REPLACE FUNCTION fetchwork.is_expression(value jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN coalesce(jsonb_typeof(value) = 'string' AND (value #>> '{}') LIKE '/Expr(%)/', false);
