-- The values that a field of a cron schedule stands for, in order; NULL if HTCondor finds the field invalid,
-- or if it has more than 500 characters (a list of all minutes has 170). '*' as the day of the week gives no
-- value: then the day of the month decides alone. The rules are those of HTCondor's CronTab
-- (condor_utils/condor_crontab.cpp), the odd ones too: a step keeps the values that it divides, a single
-- value out of range stands for all values, and 7 is Sunday.
CREATE OR REPLACE FUNCTION fetchwork.cron_values(field text, lowest integer, highest integer)
RETURNS integer []
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    weekday boolean := highest = 7;
    item text;
    step integer;
    first integer;
    last integer;
    chosen integer[] := '{}';
BEGIN
    -- each item costs up to sixty values, here and at each next time of the job
    IF length(field) > 500 OR field !~ '^[-0-9,/* ]*$' THEN
        RETURN NULL;
    END IF;
    FOREACH item IN ARRAY string_to_array(replace(field, ' ', ''), ',') LOOP
        CONTINUE WHEN item = '';
        step := 1;
        IF strpos(item, '/') > 0 THEN
            step := coalesce(substring(item FROM '/(-?[0-9]{1,6})'), '0')::integer;
            IF step = 0 THEN
                RETURN NULL;
            END IF;
            item := split_part(item, '/', 1);
        END IF;
        first := lowest;
        last := highest;
        IF strpos(item, '-') > 0 THEN
            first := greatest(lowest, coalesce(substring(item FROM '^([0-9]{1,6})'), '0')::integer);
            last := least(highest, coalesce(substring(item FROM '-(-?[0-9]{1,6})'), '0')::integer);
        ELSIF strpos(item, '*') > 0 THEN
            CONTINUE WHEN weekday;
        ELSIF coalesce(substring(item FROM '^([0-9]{1,6})'), '0')::integer BETWEEN lowest AND highest THEN
            first := coalesce(substring(item FROM '^([0-9]{1,6})'), '0')::integer;
            last := first;
        END IF;
        chosen := chosen || ARRAY(
            SELECT v.value
            FROM (
                SELECT CASE WHEN weekday AND n = 7 THEN 0 ELSE n END
                FROM generate_series(first, last) AS n
            ) AS v (value)
            WHERE v.value % step = 0
        );
    END LOOP;
    IF chosen = '{}' AND NOT weekday THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT DISTINCT v FROM unnest(chosen) AS v ORDER BY v);
END
$$;
