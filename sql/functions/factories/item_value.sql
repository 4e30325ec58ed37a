-- An item as the value of an attribute whose expression is that item alone, in HTCondor's JSON form:
-- "+Number = $(Item)".
CREATE OR REPLACE FUNCTION fetchwork.item_value(item text)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN item ~ '^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,15})?$' OR item ~ '^"[^"\\[:cntrl:]]*"$' THEN item
    WHEN lower(item) IN ('true', 'false') THEN lower(item)
    ELSE to_json('/Expr(' || item || ')/')::text
END;
