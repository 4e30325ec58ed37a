-- The hosts that claims wait for after the database's move to another server, or a restore
-- (functions/maintenance/note_move.sql): they have not reported their runs, or still have runs that this
-- database does not know, until their lease and with it these runs end. A row without a name stands for hosts
-- that the database does not know. No row: claims do not wait.
CREATE OR REPLACE VIEW fetchwork.unsettled AS
SELECT h.name AS machine, b.moved_at, h.lease_until AS until_at
FROM fetchwork.heartbeat AS b
JOIN fetchwork.host AS h ON h.lease_until > clock_timestamp()
WHERE b.offers_wait AND coalesce(h.settled_at < b.moved_at, true)
UNION ALL
SELECT NULL, b.moved_at, b.offers_from
FROM fetchwork.heartbeat AS b
WHERE b.offers_wait AND b.offers_from > clock_timestamp();
