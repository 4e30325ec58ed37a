-- Raises FWDEN if the session is that of one host which was invited without "trusted", or of hosts that
-- must_join. For tasks that show
-- the jobs of all hosts.
CREATE OR REPLACE FUNCTION fetchwork.require_trusted_host()
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF fetchwork.is_joined_host() AND NOT fetchwork.is_trusted_host() OR fetchwork.must_join() THEN
        RAISE EXCEPTION 'role % may not do this for all hosts; allowed: hosts that were invited as trusted',
            quote_nullable(session_user) USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
