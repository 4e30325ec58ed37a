-- Puts jobs whose delay is over into the queue. Returns how many. SKIP LOCKED: rows that another call holds
-- are left to it.
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
