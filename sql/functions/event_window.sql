-- What a reader of events asks first, with its cursor: how far events are dropped (kept_*), how far they are complete (horizon: below it all transactions
-- have ended), and the place up to which there are "most" events behind the cursor (until_*, more: there are further ones; without most: all).
--
-- Why: a reader's rights are asked by the view "events", through which PostgreSQL can't see that a page is the head of an index; bounded on both sides
-- it is a short range of that index, however far behind the reader is.
CREATE OR REPLACE FUNCTION fetchwork.event_window(after_xid xid8, after_id bigint, most integer DEFAULT NULL)
RETURNS TABLE (kept_xid xid8, kept_id bigint, horizon xid8, until_xid xid8, until_id bigint, more boolean)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH here AS (
        SELECT f.xid, f.event_id, (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + f.xid_offset)::text::xid8 AS horizon
        FROM fetchwork.event_floor AS f
    ),
    last AS (
        SELECT e.xid, e.event_id
        FROM fetchwork.event AS e
        WHERE (e.xid, e.event_id) > (event_window.after_xid, event_window.after_id) AND e.xid < (SELECT h.horizon FROM here AS h)
            AND event_window.most IS NOT NULL
        ORDER BY e.xid, e.event_id
        OFFSET greatest(event_window.most, 1) - 1
        LIMIT 1
    )
    SELECT h.xid, h.event_id, h.horizon, coalesce(l.xid, h.horizon), coalesce(l.event_id, 0), l.xid IS NOT NULL
    FROM here AS h
    LEFT JOIN last AS l ON true;
END;
