-- Notices that the database is not the one that the hosts remember: a standby took over, a dump was restored
-- on this server or another, a recovery ended at an earlier point. Called by reap, and with forced by
-- after_restore. Does nothing on the known server. Returns whether it was a move.
-- The last transactions before a move may be lost (never with a synchronous standby), after a restore all
-- since the backup. Then jobs wait here that already run, by claims that this database does not know. So no
-- job is claimed (claim_many) until each host with a lease has reported its runs in a beat, and has no
-- unknown one: those it is told to end (beat). A silent host ends its jobs when its lease is over. A host
-- that is unknown here says hello again: five seconds are enough if all connections broke. After a restore
-- into the same database connections may live on, and the host learns of it at its next beat, a third of its
-- lease later. reap sees when this is over; an administrator who knows that nothing was lost calls
-- resume_offers.
-- Ids of the lost transactions are skipped (skip_ids), and events get no place before they are put behind
-- (put_events_behind). Locks: the row of heartbeat.
CREATE OR REPLACE FUNCTION fetchwork.note_move(forced boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    here text := fetchwork.server_identity();
    running text := fetchwork.running_identity(true);
    before fetchwork.heartbeat;
    wait interval := '5 s';
BEGIN
    SELECT h.*
    INTO before
    FROM fetchwork.heartbeat AS h
    FOR UPDATE;
    IF before.running_as IS DISTINCT FROM running THEN
        UPDATE fetchwork.heartbeat AS h
        SET running_as = running;
    END IF;
    IF before.server IS NULL AND NOT forced THEN
        PERFORM fetchwork.skip_ids();
        UPDATE fetchwork.heartbeat AS h
        SET server = here, events_server = here;
        RETURN false;
    END IF;
    IF here = before.server AND NOT forced THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.skip_ids(forced => true);
    IF here IS NOT DISTINCT FROM before.server
        OR (
            split_part(before.running_as, '/', 1) = split_part(running, '/', 1)
            AND split_part(before.running_as, '/', 2) <> split_part(running, '/', 2)
        )
    THEN
        SELECT interval '5 s' + max(fetchwork.host_lease(h)) / 3
        INTO wait
        FROM fetchwork.host AS h
        WHERE NOT h.access_point;
        wait := coalesce(wait, '5 s');
    END IF;
    UPDATE fetchwork.heartbeat AS h
    SET server = here,
        events_server = NULL,
        moved_at = clock_timestamp(),
        offers_wait = true,
        offers_from = clock_timestamp() + wait;
    RETURN true;
END
$$;
