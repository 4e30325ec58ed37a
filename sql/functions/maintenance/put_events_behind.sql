-- Puts the events to come behind all that readers may have seen, after a move or a restore that note_move has
-- noticed (migrations/0001_base.sql, Events). Called by after_restore and reap.
--
-- Events that were written since the move and before this are put behind as well: those of a transaction from
-- events_from on (note_move). Where the old server's transaction ids lie ahead of this one's, their own ids
-- show them too. After a recovery or a standby's taking over, those since the last look for lost runs are
-- among them, which readers then get twice; they know them by the jump of their cursor.
--
-- The clock is in the offset, so that each is higher than those of restores that a backup knows nothing of.
--
-- Locks: the events, ACCESS EXCLUSIVE; it waits for them 0.1 s (SQLSTATE 55P03 then), because
-- behind this wait all who write events would queue. reap tries again.
CREATE OR REPLACE FUNCTION fetchwork.put_events_behind()
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    old_offset bigint;
    new_offset bigint;
    -- as events keep it: the first transaction that counts as later, the next, the last event
    from_at bigint;
    next_at bigint;
    last_at bigint;
    passed_at bigint;
    boundary bigint;
BEGIN
    LOCK TABLE fetchwork.event IN ACCESS EXCLUSIVE MODE;
    SELECT f.xid_offset, h.events_from + f.xid_offset
    INTO old_offset, from_at
    FROM fetchwork.event_floor AS f
    CROSS JOIN fetchwork.heartbeat AS h;
    next_at := pg_snapshot_xmax(pg_current_snapshot())::text::bigint + old_offset;
    passed_at := coalesce(pg_sequence_last_value('fetchwork.passed_xid'::regclass), 0);
    SELECT e.xid::text::bigint
    INTO last_at
    FROM fetchwork.event AS e
    ORDER BY e.xid DESC
    LIMIT 1;
    -- far enough for what a lost timeline may have given out
    new_offset := greatest(
        greatest(next_at, last_at, (SELECT f.xid::text::bigint FROM fetchwork.event_floor AS f), passed_at)
        + 4294967296,
        extract(epoch FROM clock_timestamp())::bigint << 31
    );

    SELECT max(e.event_id)
    INTO boundary
    FROM fetchwork.event AS e
    WHERE e.xid >= next_at::text::xid8 AND e.xid <> passed_at::text::xid8;
    UPDATE fetchwork.event AS e
    SET xid = (e.xid::text::bigint - old_offset + new_offset)::text::xid8
    WHERE e.event_id > coalesce(boundary, 0)
        AND (
            (e.xid >= from_at::text::xid8 AND e.xid < next_at::text::xid8)
            OR (e.xid = passed_at::text::xid8 AND passed_at >= next_at)
        );

    EXECUTE format(
        'ALTER TABLE fetchwork.event '
        'ALTER COLUMN xid SET DEFAULT greatest('
        '(pg_current_xact_id()::text::bigint + %s)::text::xid8, '
        'pg_sequence_last_value(''fetchwork.passed_xid''::regclass)::text::xid8)',
        new_offset
    );
    UPDATE fetchwork.event_floor AS f
    SET xid_offset = new_offset;
    UPDATE fetchwork.heartbeat AS h
    SET events_server = h.server;
END
$$;
