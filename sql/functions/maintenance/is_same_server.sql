-- Is this the server that reap has seen last, and has it run since? False says that server_identity has to be
-- asked: PostgreSQL was started anew, or the database moved, or no agent has been there yet.
--
-- Every claim and submission asks: in plpgsql a session plans it once.
CREATE OR REPLACE FUNCTION fetchwork.is_same_server()
RETURNS boolean
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM fetchwork.heartbeat AS b
        WHERE b.running_as = fetchwork.running_identity(true)
    );
END
$$;
