-- Changes a number of the table "setting". A time may have a fraction, and is a hundred years at most: longer
-- ones can't be subtracted from every date. Errors: FWDEN, FWNOT (an unknown setting), FWINV (negative, too
-- large, or not a number).
CREATE OR REPLACE FUNCTION fetchwork.set_setting(name text, value numeric)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unit text;
    largest numeric;
BEGIN
    PERFORM fetchwork.require_admin();
    SELECT s.unit
    INTO unit
    FROM fetchwork.setting AS s
    WHERE s.name = set_setting.name;
    largest := CASE unit WHEN 'days' THEN 36500 WHEN 'seconds' THEN 3153600000 ELSE 1e15 END;
    IF unit IS NOT NULL AND value NOT BETWEEN 0 AND largest THEN
        RAISE EXCEPTION 'setting % is % %; allowed: 0 to %',
            quote_nullable(set_setting.name), value, unit, largest USING ERRCODE = 'FWINV';
    END IF;
    UPDATE fetchwork.setting AS s
    SET value = set_setting.value
    WHERE s.name = set_setting.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'setting % does not exist; allowed: %',
            quote_nullable(set_setting.name),
            (SELECT string_agg(s.name, ', ' ORDER BY s.name) FROM fetchwork.setting AS s)
            USING ERRCODE = 'FWNOT';
    END IF;
    PERFORM fetchwork.note_action('set_setting', NULL, NULL, set_setting.name, value::text);
END
$$;
