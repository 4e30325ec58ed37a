-- Whether an attribute is undefined, or may be undefined when HTCondor evaluates it.
CREATE OR REPLACE FUNCTION fetchwork.can_be_undefined(value jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN value IS NULL OR value = 'null' OR fetchwork.is_expression(value);
