-- Whether a job starts at a time: then enqueue decides when it waits in the queue.
CREATE OR REPLACE FUNCTION fetchwork.is_timed(ad jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN ad ->> 'DeferralTime' IS NOT NULL OR fetchwork.has_cron(ad);
