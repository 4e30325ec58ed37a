-- How far the events are kept: a cursor before this one has missed some.
CREATE OR REPLACE VIEW fetchwork.events_kept AS
SELECT f.xid, f.event_id AS eventid
FROM fetchwork.event_floor AS f;
