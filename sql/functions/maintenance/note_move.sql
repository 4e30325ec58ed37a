-- Notices that the database is on another server than before, or back in time: a standby has taken over, a
-- dump was restored, a recovery ended at an earlier point. Called by reap, and by after_restore; nothing
-- happens on the server that it knows. Returns whether it was a move.
--
-- The last transactions before it may be lost (never with a synchronous standby). Then jobs wait here that
-- run already, of claims that this database does not know. So nothing is claimed (claim_many) until each host
-- that has a lease has said in a beat which runs it has, and has none that is unknown: those it is told to
-- end (beat). A host that says nothing ends its jobs when its lease is over; one whose first hello was lost
-- has five seconds to say it again. reap sees when it is over; an administrator who knows that nothing was
-- lost calls resume_offers.
--
-- Ids of jobs and runs that were given out in the lost transactions are not given out again: somebody may
-- still ask for them.
CREATE OR REPLACE FUNCTION fetchwork.note_move()
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- ids that the lost transactions may have taken
    gap integer := 10000;
    here text := fetchwork.server_identity();
    before text;
BEGIN
    SELECT h.server
    INTO before
    FROM fetchwork.heartbeat AS h
    FOR UPDATE;
    IF here IS NULL OR here IS NOT DISTINCT FROM before THEN
        RETURN false;
    END IF;
    UPDATE fetchwork.heartbeat AS h
    SET server = here;
    IF before IS NULL THEN
        UPDATE fetchwork.heartbeat AS h
        SET events_server = here;
        RETURN false;
    END IF;
    UPDATE fetchwork.heartbeat AS h
    SET moved_at = clock_timestamp(),
        offers_wait = true;
    PERFORM setval(
        format('%I.%I', s.schemaname, s.sequencename)::regclass,
        least(coalesce(s.last_value, 0) + gap, s.max_value)
    )
    FROM pg_sequences AS s
    WHERE s.schemaname = 'fetchwork' AND s.sequencename IN ('cluster_id', 'run_id', 'position');
    RETURN true;
END
$$;
