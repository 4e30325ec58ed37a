-- Ended jobs that leave_in_queue has kept for long enough (setting left_days) leave the queue. Called by
-- maintain_queue: the oldest 500 a call, whoever's they are, which is more than a million an hour; one call
-- is short. Returns how many. Locks these jobs; one that somebody else has locked is left for the next call.
CREATE OR REPLACE FUNCTION fetchwork.end_stays()
RETURNS integer
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
SELECT fetchwork.leave_queue(array_agg(l.cluster_id), array_agg(l.proc_id))
FROM (
    SELECT j.cluster_id, j.proc_id
    FROM fetchwork.job AS j
    WHERE j.job_status = 4
        AND j.status_at < now() - make_interval(
            secs => 86400 * fetchwork.setting_value('left_days')::double precision
        )
    ORDER BY j.status_at
    LIMIT 500
    FOR UPDATE SKIP LOCKED
) AS l
$$;
