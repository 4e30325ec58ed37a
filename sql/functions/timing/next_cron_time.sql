-- The next time of a job with a cron schedule (CronMinute, CronHour, CronDayOfMonth, CronMonth,
-- CronDayOfWeek; a missing one is '*'): the first full minute after after_time in the schedule, as HTCondor's
-- CronTab finds it; NULL if there is no such time, or if a field is invalid.
-- The schedule is in the time zone FetchWorkTimeZone of the ad, which submit_cluster sets. If both a day of
-- the month and a day of the week are given, either will do. One difference: for a schedule with days of the
-- week alone, HTCondor also takes the last day of a month if the next such day lies in the next month.
CREATE OR REPLACE FUNCTION fetchwork.next_cron_time(ad jsonb, after_time timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    time_zone text := ad ->> 'FetchWorkTimeZone';
    minutes integer[] := fetchwork.cron_values(coalesce(ad ->> 'CronMinute', '*'), 0, 59);
    hours integer[] := fetchwork.cron_values(coalesce(ad ->> 'CronHour', '*'), 0, 23);
    days integer[] := fetchwork.cron_values(coalesce(ad ->> 'CronDayOfMonth', '*'), 1, 31);
    months integer[] := fetchwork.cron_values(coalesce(ad ->> 'CronMonth', '*'), 1, 12);
    weekdays integer[] := fetchwork.cron_values(coalesce(ad ->> 'CronDayOfWeek', '*'), 0, 7);
    begin_at timestamp;
    day date;
    final_day date;
    hour_now integer;
    hour integer;
    minute integer;
BEGIN
    -- time zones come and go with the system's data
    IF fetchwork.is_time_zone(time_zone) IS NOT TRUE THEN
        time_zone := current_setting('TimeZone');
    END IF;
    begin_at := (date_trunc('minute', after_time) + interval '1 minute') AT TIME ZONE time_zone;
    day := begin_at::date;
    -- the 29th of February may be eight years away
    final_day := day + 366 * 9;
    hour_now := extract(hour FROM begin_at);
    IF minutes IS NULL OR hours IS NULL OR days IS NULL OR months IS NULL OR weekdays IS NULL THEN
        RETURN NULL;
    END IF;
    WHILE day < final_day LOOP
        IF extract(month FROM day)::integer = ANY (months)
            AND (
                extract(dow FROM day)::integer = ANY (weekdays)
                OR (weekdays = '{}' OR cardinality(days) < 31) AND extract(day FROM day)::integer = ANY (days)
            )
        THEN
            FOREACH hour IN ARRAY hours LOOP
                CONTINUE WHEN day = begin_at::date AND hour < hour_now;
                FOREACH minute IN ARRAY minutes LOOP
                    CONTINUE WHEN day = begin_at::date AND hour = hour_now
                        AND minute < extract(minute FROM begin_at);
                    -- when the clock is put back, an hour comes twice: never return a time that is over
                    RETURN greatest(
                        (day + make_interval(hours => hour, mins => minute)) AT TIME ZONE time_zone,
                        date_trunc('minute', after_time) + interval '1 minute'
                    );
                END LOOP;
            END LOOP;
        END IF;
        day := day + 1;
    END LOOP;
    RETURN NULL;
END
$$;
