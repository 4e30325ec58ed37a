-- 0004: events stay in order when the database moves to another server.
--
-- Transaction ids are a server's own. After a restore from a dump they start low again, after a recovery to an earlier point they are given out twice: a
-- reader's cursor would lie ahead of the events to come, and step over them. So what an event keeps is the transaction id plus an offset, which
-- functions/maintenance/after_restore.sql raises above all that was.

INSERT INTO fetchwork.migration (version, name) VALUES (4, 'restore');

ALTER TABLE fetchwork.event_floor ADD COLUMN xid_offset bigint NOT NULL DEFAULT 0;

-- who has written this database last: another one means that it was restored, or that a standby took over
ALTER TABLE fetchwork.heartbeat ADD COLUMN server text;
