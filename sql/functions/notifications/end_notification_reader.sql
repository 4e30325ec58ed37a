-- Ends the session that keeps PostgreSQL's queue of notifications more than half full; the leading agent
-- calls it. pid: the process that PostgreSQL's warning names as the slowest reader of the queue
-- (AsyncDatabase.slowest_listener); no view names it.
-- An agent may lie about the pid. So a session is ended only while the queue is more than half full, if its
-- transaction is older than 5 s and its role is not a superuser: only a reader in a transaction can hold the
-- queue. Returns whether a session was ended. False too if the owner of the schema is neither a superuser nor
-- a member of pg_signal_backend and pg_read_all_stats; then an administrator ends the session
-- (OPERATIONS.md).
CREATE OR REPLACE FUNCTION fetchwork.end_notification_reader(pid integer)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF fetchwork.sends_notifications() OR NOT pg_has_role(current_user, 'pg_signal_backend', 'USAGE') THEN
        RETURN false;
    END IF;
    PERFORM pg_terminate_backend(s.pid)
    FROM pg_stat_activity AS s
    JOIN pg_roles AS r ON r.oid = s.usesysid
    WHERE s.pid = end_notification_reader.pid
        AND s.pid <> pg_backend_pid()
        AND s.xact_start < clock_timestamp() - interval '5 s'
        AND NOT r.rolsuper;
    RETURN FOUND;
END
$$;
