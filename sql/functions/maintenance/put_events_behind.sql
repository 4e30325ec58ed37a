-- Puts coming events behind all that readers may have seen, after a move or a restore that note_move has
-- noticed (migrations/0001_base.sql, Events). Called by after_restore and reap. Events written between the
-- move and this call come behind as well: until then sequence_events gives them no place. The new position
-- contains the clock, so that it is higher than after restores that a backup does not know. Locks: the row of
-- heartbeat.
CREATE OR REPLACE FUNCTION fetchwork.put_events_behind()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- beyond all that a lost timeline may have given out
    PERFORM setval('fetchwork.event_batch', greatest(
        nextval('fetchwork.event_batch') + 4294967296,
        extract(epoch FROM clock_timestamp())::bigint << 31
    ));
    UPDATE fetchwork.heartbeat AS h
    SET events_server = h.server;
END
$$;
