-- Has a job a cron schedule?
CREATE OR REPLACE FUNCTION fetchwork.has_cron(ad jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN ad ?| ARRAY['CronMinute', 'CronHour', 'CronDayOfMonth', 'CronMonth', 'CronDayOfWeek'];
