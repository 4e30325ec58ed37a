-- Whether PostgreSQL knows a time zone of this name.
CREATE OR REPLACE FUNCTION fetchwork.is_time_zone(name text)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN now() AT TIME ZONE name IS NOT NULL;
EXCEPTION
    WHEN invalid_parameter_value THEN
        RETURN false;
END
$$;
