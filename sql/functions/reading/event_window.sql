-- What a reader of events asks first, with its cursor: how far events are dropped (kept_*), how far they are
-- complete (horizon: below it all transactions have ended, or have written no
-- event and will write none there), and the last event that it may read now
-- (until_*): that "most" events behind the cursor if there are as many (more: there are further ones), else
-- the newest that is complete, or without any the cursor itself.
--
-- Ahead: no event of this database was ever read there, so the cursor is of one that was restored from before
-- it, or of another database. Not said by a standby, which may lag, nor while a move of this database has not
-- been dealt with (put_events_behind).
--
-- Why: a reader's rights are asked by the view "events", through which PostgreSQL can't see that a page is
-- the head of an index; bounded on both sides it is a short range of that index, however far behind the
-- reader is.
--
-- A cursor stands at an event, never at the horizon: claims don't wait for the disk, so a crash forgets their
-- transactions, and PostgreSQL gives their ids out again, to events that would then lie before such a cursor.
-- An event is on disk before any reader sees it.
--
-- In PL/pgSQL, which keeps its plans: over three months of daily partitions planning takes longer than
-- looking.
CREATE OR REPLACE FUNCTION fetchwork.event_window(after_xid xid8, after_id bigint, most integer DEFAULT NULL)
RETURNS TABLE (
    kept_xid xid8,
    kept_id bigint,
    horizon xid8,
    until_xid xid8,
    until_id bigint,
    more boolean,
    ahead boolean
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- whose snapshot has passed_xid has all events that were written before it
    SELECT
        f.xid, f.event_id,
        greatest(
            (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + f.xid_offset)::text::xid8, f.passed_xid
        )
    INTO kept_xid, kept_id, horizon
    FROM fetchwork.event_floor AS f;
    IF most IS NOT NULL THEN
        SELECT e.xid, e.event_id
        INTO until_xid, until_id
        FROM fetchwork.event AS e
        WHERE (e.xid, e.event_id) > (after_xid, after_id) AND e.xid < horizon
        ORDER BY e.xid, e.event_id
        OFFSET greatest(most, 1) - 1
        LIMIT 1;
    END IF;
    more := until_xid IS NOT NULL;
    IF NOT more THEN
        SELECT e.xid, e.event_id
        INTO until_xid, until_id
        FROM fetchwork.event AS e
        WHERE (e.xid, e.event_id) > (after_xid, after_id) AND e.xid < horizon
        ORDER BY e.xid DESC, e.event_id DESC
        LIMIT 1;
    END IF;
    IF until_xid IS NULL THEN
        until_xid := after_xid;
        until_id := after_id;
    END IF;
    ahead := after_xid >= horizon
        AND NOT pg_is_in_recovery()
        AND EXISTS (
            SELECT FROM fetchwork.heartbeat AS h
            WHERE h.events_server = fetchwork.server_identity()
        );
    RETURN NEXT;
END
$$;
