-- The last event that was dropped: a reader whose cursor lies before it has missed some.
CREATE OR REPLACE VIEW fetchwork.events_kept AS
SELECT f.batch, f.event_id AS eventid
FROM fetchwork.event_floor AS f;
