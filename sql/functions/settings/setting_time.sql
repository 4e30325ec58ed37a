-- A time of the table "setting", in seconds or days there.
CREATE OR REPLACE FUNCTION fetchwork.setting_time(name text)
RETURNS interval
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT make_interval(secs => s.value::double precision * CASE s.unit WHEN 'days' THEN 86400 ELSE 1 END)
    FROM fetchwork.setting AS s
    WHERE s.name = setting_time.name;
END;
