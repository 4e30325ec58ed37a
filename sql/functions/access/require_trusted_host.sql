-- Raises FWDEN if the session may not do the tasks that show the jobs of all (may_see_all).
CREATE OR REPLACE FUNCTION fetchwork.require_trusted_host()
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF NOT fetchwork.may_see_all() THEN
        RAISE EXCEPTION 'role % may not do this for all hosts; allowed: hosts that were invited as trusted, '
            'access points that act for no account',
            quote_nullable(session_user) USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
