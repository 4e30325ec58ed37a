-- The part of server_identity that is cheap to read: the database, a table of ours, and the start time of
-- this PostgreSQL. Cluster and timeline change only with a new start or a standby's take-over, and a standby
-- has its own start time. So a caller that has seen this text together with a server_identity need not read
-- that again.
CREATE OR REPLACE FUNCTION fetchwork.running_identity(with_start boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql
STABLE
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
