-- The time for which a host backs off after so many failed probes.
CREATE OR REPLACE FUNCTION fetchwork.probe_rest(failed integer)
RETURNS interval
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT make_interval(
        secs => least(
            fetchwork.setting_value('black_hole_rest') * power(2, least(failed, 30)),
            fetchwork.setting_value('max_black_hole_rest')
        )::double precision
    );
END;
