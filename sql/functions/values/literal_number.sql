-- An attribute's number if SQL can read it: a literal, or a plain reference to one ("RequestDisk =
-- DiskUsage", as HTCondor's submit writes it). NULL if only an evaluation with the slot's ad gives a number.
CREATE OR REPLACE FUNCTION fetchwork.literal_number(ad jsonb, name text)
RETURNS double precision
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    value jsonb := ad -> name;
    referred text;
BEGIN
    IF fetchwork.is_expression(value) THEN
        referred := substring(value #>> '{}' FROM '^/Expr\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)/$');
        SELECT e.value
        INTO value
        FROM jsonb_each(ad) AS e
        WHERE lower(e.key) = lower(referred);
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN fetchwork.number_of(value);
END
$$;
