-- Changes a number of the table "setting"; FWNOT for one that does not exist.
CREATE OR REPLACE FUNCTION fetchwork.set_setting(name text, value numeric)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    UPDATE fetchwork.setting AS s
    SET value = set_setting.value
    WHERE s.name = set_setting.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWNOT',
            MESSAGE = format(
                'setting %L does not exist; allowed: %s',
                set_setting.name,
                (SELECT string_agg(s.name, ', ' ORDER BY s.name) FROM fetchwork.setting AS s)
            );
    END IF;
END
$$;
