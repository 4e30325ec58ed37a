-- False while PostgreSQL's queue of notifications is more than half full: then this schema sends none, and
-- agents look for work every few seconds instead (fetchwork/agent/fetching/notifications.py).
--
-- The queue is one for all databases of the server. Any role that may connect to one of them can fill it: it
-- listens, stays in a transaction, and notifies. In a full queue pg_notify fails its transaction, and does so
-- at commit, where no caller can catch it. The half that is left is room for transactions that asked while
-- less was used and commit later.
--
-- pg_notification_queue_usage() also frees what every listener has read; PostgreSQL itself does that only for
-- those who can still notify.
CREATE OR REPLACE FUNCTION fetchwork.sends_notifications()
RETURNS boolean
LANGUAGE sql
VOLATILE
SET search_path = pg_catalog, pg_temp
RETURN pg_notification_queue_usage() < 0.5;
