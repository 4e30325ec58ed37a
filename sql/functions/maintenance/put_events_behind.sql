-- Puts the events to come behind all that readers may have seen, after a move or a restore that note_move has
-- noticed (migrations/0001_base.sql, Events). Called by after_restore and reap.
--
-- Events that were written since the move and before this come behind as well: until then sequence_events
-- gives none a place. The clock is in the new position, so that each is higher than those of restores that a
-- backup knows nothing of.
--
-- Locks: the row of heartbeat.
CREATE OR REPLACE FUNCTION fetchwork.put_events_behind()
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- far enough for what a lost timeline may have given out
    PERFORM setval('fetchwork.event_batch', greatest(
        nextval('fetchwork.event_batch') + 4294967296,
        extract(epoch FROM clock_timestamp())::bigint << 31
    ));
    UPDATE fetchwork.heartbeat AS h
    SET events_server = h.server;
END
$$;
