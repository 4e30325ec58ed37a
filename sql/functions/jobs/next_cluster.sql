-- A cluster id that nothing has: of the queue, of the history, of a reservation. After 2147483647, the
-- largest that HTCondor's job ids hold, they begin at 1 again, and what is still known under its id is
-- stepped over. An id is known for as long as the history is kept (setting history_days), so no two jobs that
-- anybody can ask for have the same.
--
-- Taken from a sequence, so nobody waits for another; two callers never get the same. After a restore the ids
-- that were given out since the backup are skipped first (functions/maintenance/skip_ids.sql).
-- Errors: FWCON if there is none among the next 10 000.
CREATE OR REPLACE FUNCTION fetchwork.next_cluster()
RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    drawn integer;
BEGIN
    IF NOT fetchwork.is_same_server() THEN
        PERFORM fetchwork.skip_ids();
    END IF;
    FOR n IN 1 .. 10000 LOOP
        drawn := nextval('fetchwork.cluster_id');
        IF NOT EXISTS (SELECT FROM fetchwork.cluster AS c WHERE c.cluster_id = drawn)
            AND NOT EXISTS (SELECT FROM fetchwork.cluster_reservation AS r WHERE r.cluster_id = drawn)
        THEN
            RETURN drawn;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING
        ERRCODE = 'FWCON',
        MESSAGE = format('the 10000 cluster ids up to %s are all in use: submit again', drawn);
END
$$;
