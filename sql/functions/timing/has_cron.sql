-- Whether a job has a cron schedule. An attribute that an edit has removed is null in the job's own ad.
CREATE OR REPLACE FUNCTION fetchwork.has_cron(ad jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN coalesce(
    ad ->> 'CronMinute', ad ->> 'CronHour', ad ->> 'CronDayOfMonth', ad ->> 'CronMonth',
    ad ->> 'CronDayOfWeek'
) IS NOT NULL;
