-- Puts the events that were committed since the last call into the stream that readers follow, as one batch,
-- and returns how many. The order of the stream is (batch, event_id): migrations/0001_base.sql, Events.
--
-- Only agents and access points call it, many times a second while something happens: its lock lasts to the
-- end of the transaction, so each call is a transaction of its own. A second caller returns at once and
-- leaves the events to the first.
--
-- since: the value (until) that the caller's previous call returned, null at first: a snapshot, and the
-- server that took it. Then only events of transactions that have ended between the two snapshots are looked
-- for: those that ran at the first, and those that began after it. All others had their turn. So a
-- transaction that is left open, with events or without, delays its own events alone, and dead index entries
-- behind an old snapshot are not read again. A snapshot of another server says nothing about this one, which
-- may have lost batches that the other gave: then all events are looked at, as without since. So they are
-- after each move: an agent may have called while a dump was being restored, before its events were there.
--
-- Locks: the turn "events", which is not waited for; the rows of the new events.
CREATE OR REPLACE FUNCTION fetchwork.sequence_events(
    since text DEFAULT NULL,
    OUT until text,
    OUT sequenced bigint
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    server text := concat_ws(
        '/', fetchwork.running_identity(with_start => true),
        (SELECT extract(epoch FROM h.moved_at) FROM fetchwork.heartbeat AS h)
    );
    before pg_snapshot := CASE
        WHEN starts_with(since, server || ' ') THEN substr(since, length(server) + 2)::pg_snapshot
    END;
    first_xid xid8 := coalesce(pg_snapshot_xmax(before), '0');
    ran xid8[] := coalesce(ARRAY(SELECT x.xid FROM pg_snapshot_xip(before) AS x (xid)), '{}');
    next_batch bigint;
    -- this statement's snapshot, if it finds nothing
    here text;
    anything boolean;
BEGIN
    until := since;
    sequenced := 0;
    SELECT
        server || ' ' || pg_current_snapshot(),
        EXISTS (SELECT FROM fetchwork.event AS e WHERE e.batch IS NULL AND e.xid >= first_xid)
        OR EXISTS (SELECT FROM fetchwork.event AS e WHERE e.batch IS NULL AND e.xid = ANY (ran))
    INTO here, anything;
    IF NOT anything THEN
        until := here;
        RETURN;
    END IF;
    IF NOT fetchwork.take_turn('events') THEN
        RETURN;
    END IF;
    -- on a server that is new to the queue a cursor may lie ahead of what comes: put_events_behind goes first
    IF EXISTS (
        SELECT FROM fetchwork.heartbeat AS h
        WHERE h.server IS NOT NULL AND h.events_server IS DISTINCT FROM fetchwork.server_identity()
    ) THEN
        RETURN;
    END IF;
    next_batch := nextval('fetchwork.event_batch');
    WITH put AS (
        UPDATE fetchwork.event AS e
        SET batch = next_batch
        WHERE e.batch IS NULL AND (e.xid >= first_xid OR e.xid = ANY (ran))
        RETURNING e.event_id
    )
    SELECT server || ' ' || pg_current_snapshot(), count(*)
    INTO until, sequenced
    FROM put;
END
$$;
