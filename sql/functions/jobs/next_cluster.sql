-- A cluster id that is not in use in the queue, the history or a reservation. After 2147483647, the largest
-- in HTCondor's job ids, ids begin at 1 again and skip those in use. An id is in use as long as its history
-- is kept (setting history_days), so no two known jobs have the same id.
-- The id comes from a sequence: callers do not wait for each other, and never get the same. After a restore
-- it first skips the ids given out since the backup (functions/maintenance/skip_ids.sql).
-- Errors: FWCON (the next 10 000 ids are all in use).
CREATE OR REPLACE FUNCTION fetchwork.next_cluster()
RETURNS integer
LANGUAGE plpgsql
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
    RAISE EXCEPTION 'the 10000 cluster ids up to % are all in use: submit again',
        drawn USING ERRCODE = 'FWCON';
END
$$;
