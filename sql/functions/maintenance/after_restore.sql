-- Puts the events to come behind all that readers may have seen, when the database has moved to another
-- server or back in time (migrations/0001_base.sql, Events). Called by reap as soon as it finds itself on
-- another server, and by an administrator who wants no event written before that; repeating it is harmless.
--
-- Events that were written since the move and before this are put behind as well. Their ids show them where
-- the old server's transaction ids lie ahead of this one's, else their time: then a reader may get the last
-- seconds before the move twice. Live runs go on, or are lost after a lease; when jobs are claimed again is
-- said in note_move.
--
-- Locks: the events, ACCESS EXCLUSIVE; it waits for them 0.1 s (SQLSTATE 55P03 then), because
-- behind this wait all who write events would queue. reap tries again.
CREATE OR REPLACE FUNCTION fetchwork.after_restore()
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    old_offset bigint;
    new_offset bigint;
    -- as events keep it: the next transaction, and the last event
    next_at bigint;
    last_at bigint;
    boundary bigint;
    moved_at timestamptz;
BEGIN
    LOCK TABLE fetchwork.event IN ACCESS EXCLUSIVE MODE;
    SELECT f.xid_offset
    INTO old_offset
    FROM fetchwork.event_floor AS f;
    SELECT h.reaped_at
    INTO moved_at
    FROM fetchwork.heartbeat AS h;
    next_at := pg_snapshot_xmax(pg_current_snapshot())::text::bigint + old_offset;
    SELECT e.xid::text::bigint
    INTO last_at
    FROM fetchwork.event AS e
    ORDER BY e.xid DESC
    LIMIT 1;
    -- far enough for what a lost timeline may have given out
    new_offset := greatest(
        next_at, last_at, (SELECT f.xid::text::bigint FROM fetchwork.event_floor AS f),
        pg_sequence_last_value('fetchwork.passed_xid'::regclass)
    ) + 4294967296;

    SELECT max(e.event_id)
    INTO boundary
    FROM fetchwork.event AS e
    WHERE e.xid >= next_at::text::xid8;
    UPDATE fetchwork.event AS e
    SET xid = (e.xid::text::bigint - old_offset + new_offset)::text::xid8
    WHERE CASE WHEN boundary IS NULL THEN e.at > moved_at ELSE e.event_id > boundary END;

    EXECUTE format(
        'ALTER TABLE fetchwork.event '
        'ALTER COLUMN xid SET DEFAULT greatest('
        '(pg_current_xact_id()::text::bigint + %s)::text::xid8, '
        'pg_sequence_last_value(''fetchwork.passed_xid''::regclass)::text::xid8)',
        new_offset
    );
    UPDATE fetchwork.event_floor AS f
    SET xid_offset = new_offset;
    PERFORM fetchwork.note_move();
    UPDATE fetchwork.heartbeat AS h
    SET events_server = h.server;
END
$$;
