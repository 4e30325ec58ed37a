-- Moves ended jobs out of the queue that leave_in_queue has kept for left_days. maintain_queue calls it: the
-- oldest 500 of all owners in a call, which is more than a million an hour, and keeps a call short. Returns
-- how many. Locks: these jobs; skips locked ones until the next call.
CREATE OR REPLACE FUNCTION fetchwork.end_stays()
RETURNS integer
LANGUAGE sql
AS $$
SELECT fetchwork.leave_queue(array_agg(l.cluster_id), array_agg(l.proc_id))
FROM (
    SELECT j.cluster_id, j.proc_id
    FROM fetchwork.job AS j
    WHERE j.job_status = 4
        AND j.status_at < now() - fetchwork.setting_time('left_days')
    ORDER BY j.status_at
    LIMIT 500
    FOR UPDATE SKIP LOCKED
) AS l
$$;
