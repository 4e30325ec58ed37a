-- The type as which SQL may compare an attribute's value: 'string', 'number', 'none' (undefined); 'unclear'
-- where only an evaluation by HTCondor shows it, as for an expression.
CREATE OR REPLACE FUNCTION fetchwork.value_type(value jsonb)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN CASE jsonb_typeof(value)
    WHEN 'string' THEN CASE WHEN fetchwork.is_expression(value) THEN 'unclear' ELSE 'string' END
    WHEN 'number' THEN 'number'
    WHEN 'null' THEN 'none'
    ELSE CASE WHEN value IS NULL THEN 'none' ELSE 'unclear' END
END;
