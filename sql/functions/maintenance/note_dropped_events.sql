-- Records the last event of a partition before it is dropped, so that a reader whose cursor lies before it
-- learns that events are missing.
CREATE OR REPLACE FUNCTION fetchwork.note_dropped_events(child text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    last record;
BEGIN
    EXECUTE format(
        'SELECT e.batch, e.event_id FROM fetchwork.%I AS e WHERE e.batch IS NOT NULL '
        'ORDER BY e.batch DESC, e.event_id DESC LIMIT 1',
        child
    )
    INTO last;
    IF last.event_id IS NOT NULL THEN
        UPDATE fetchwork.event_floor AS f
        SET batch = last.batch, event_id = last.event_id
        WHERE (f.batch, f.event_id) < (last.batch, last.event_id);
    END IF;
END
$$;
