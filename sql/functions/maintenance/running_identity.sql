-- The part of server_identity that costs nothing to read: the database, a table of ours, and since when this
-- PostgreSQL runs. While it runs, its cluster and timeline do not change without a new start or a standby's
-- taking over, and a standby has a start of its own. So who has seen this text with a server_identity needs
-- not ask for that again.
CREATE OR REPLACE FUNCTION fetchwork.running_identity(with_start boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT concat_ws(
            '/', d.oid, 'fetchwork.heartbeat'::regclass::oid,
            CASE WHEN with_start THEN extract(epoch FROM pg_postmaster_start_time()) END
        )
        FROM pg_database AS d
        WHERE d.datname = current_database()
    );
END
$$;
