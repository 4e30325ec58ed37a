-- False while PostgreSQL's queue of notifications is more than half full: then this schema sends none, and
-- agents poll for work every few seconds instead (fetchwork/agent/fetching/notifications.py).
-- The queue is shared by all databases of the server. Any role that may connect to one of them can fill it:
-- it listens, stays in a transaction, and notifies. In a full queue pg_notify fails its transaction, at
-- commit, where no caller can catch it. The free half is room for transactions that called this function
-- earlier and commit later. pg_notification_queue_usage() also frees the part that every listener has read;
-- PostgreSQL itself does that only for sessions that can still notify.
CREATE OR REPLACE FUNCTION fetchwork.sends_notifications()
RETURNS boolean
LANGUAGE sql
VOLATILE
RETURN pg_notification_queue_usage() < 0.5;
