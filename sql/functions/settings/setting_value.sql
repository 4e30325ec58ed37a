-- One number of the table "setting". Plain SQL, so that PostgreSQL can inline it.
CREATE OR REPLACE FUNCTION fetchwork.setting_value(name text)
RETURNS numeric
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT s.value
    FROM fetchwork.setting AS s
    WHERE s.name = setting_value.name;
END;
