-- Whether this is the server that reap has seen last, running since then. False means that server_identity
-- must be checked: PostgreSQL was started anew, or the database moved, or no agent has come yet. In plpgsql,
-- because a session plans it once, and every claim and submission calls it.
CREATE OR REPLACE FUNCTION fetchwork.is_same_server()
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM fetchwork.heartbeat AS b
        WHERE b.running_as = fetchwork.running_identity(true)
    );
END
$$;
