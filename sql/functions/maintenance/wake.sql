-- Puts jobs whose delay is over into the queue, and gives jobs of a cron schedule that have waited there
-- beyond their time their next one. Returns how many. Locks: the jobs; skips rows that another call holds.
CREATE OR REPLACE FUNCTION fetchwork.wake()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    due record;
    late fetchwork.job;
    woken integer := 0;
BEGIN
    FOR due IN
        SELECT j.cluster_id, j.proc_id
        FROM fetchwork.job AS j
        WHERE j.not_before <= clock_timestamp()
        ORDER BY j.not_before
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM fetchwork.enqueue(due.cluster_id, due.proc_id);
        woken := woken + 1;
    END LOOP;
    FOR late IN
        SELECT j.*
        FROM fetchwork.job AS j
        WHERE j.late_at <= clock_timestamp()
        ORDER BY j.late_at
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    LOOP
        IF late.job_status = 1
            AND fetchwork.dequeue_jobs(ARRAY[late.cluster_id], ARRAY[late.proc_id]) > 0
        THEN
            PERFORM fetchwork.enqueue(late.cluster_id, late.proc_id);
            woken := woken + 1;
        ELSE
            -- offered, running or Held: it gets its time when it waits again
            UPDATE fetchwork.job AS j
            SET late_at = NULL
            WHERE j.cluster_id = late.cluster_id AND j.proc_id = late.proc_id;
        END IF;
    END LOOP;
    RETURN woken;
END
$$;
