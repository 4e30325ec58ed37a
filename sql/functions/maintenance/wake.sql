-- Lets jobs wait in the queue whose delay is over. Returns how many. Rows that another call holds are skipped: it wakes them.
CREATE OR REPLACE FUNCTION fetchwork.wake()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    due record;
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
    RETURN woken;
END
$$;
