-- The bounds of the next page of events behind a reader's cursor: the last dropped event (kept_*), and the
-- last event that the reader may read now (until_*): the most-th event behind the cursor if there are as many
-- (more: there are further ones), else the newest of the stream, or without any the cursor itself.
-- ahead: no reader of this database can have read up to there, so the cursor is of a database that was
-- restored from an earlier state, or of another one. Never true on a standby, which may lag, nor while a move
-- of this database is not yet dealt with (put_events_behind).
-- The view "events" checks a reader's rights, so PostgreSQL can't see that a page is the head of an index;
-- bounded on both sides it is a short range of that index, however far behind the reader is. A batch is on
-- disk before a reader sees it: sequence_events waits for the disk. PL/pgSQL keeps its plans: with three
-- months of daily partitions planning takes longer than reading.
CREATE OR REPLACE FUNCTION fetchwork.event_window(
    after_batch bigint,
    after_id bigint,
    most integer DEFAULT NULL
)
RETURNS TABLE (
    kept_batch bigint,
    kept_id bigint,
    until_batch bigint,
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
    SELECT f.batch, f.event_id
    INTO kept_batch, kept_id
    FROM fetchwork.event_floor AS f;
    IF most IS NOT NULL THEN
        SELECT e.batch, e.event_id
        INTO until_batch, until_id
        FROM fetchwork.event AS e
        WHERE e.batch IS NOT NULL AND (e.batch, e.event_id) > (after_batch, after_id)
        ORDER BY e.batch, e.event_id
        OFFSET greatest(most, 1) - 1
        LIMIT 1;
    END IF;
    more := until_batch IS NOT NULL;
    IF NOT more THEN
        SELECT e.batch, e.event_id
        INTO until_batch, until_id
        FROM fetchwork.event AS e
        WHERE e.batch IS NOT NULL AND (e.batch, e.event_id) > (after_batch, after_id)
        ORDER BY e.batch DESC, e.event_id DESC
        LIMIT 1;
    END IF;
    IF until_batch IS NULL THEN
        until_batch := after_batch;
        until_id := after_id;
    END IF;
    ahead := false;
    -- apart, because a standby has no server_identity
    IF NOT pg_is_in_recovery() THEN
        ahead := after_batch > coalesce(pg_sequence_last_value('fetchwork.event_batch'::regclass), 0)
            AND EXISTS (
                SELECT FROM fetchwork.heartbeat AS h
                WHERE h.events_server = fetchwork.server_identity()
            );
    END IF;
    RETURN NEXT;
END
$$;
