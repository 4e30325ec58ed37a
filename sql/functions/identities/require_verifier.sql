-- Raises FWINV if this is no SCRAM verifier, as libpq makes one from a password. PostgreSQL would take
-- anything else for a password, which must not cross the network or stand in a log.
CREATE OR REPLACE FUNCTION fetchwork.require_verifier(verifier text)
RETURNS void
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
    IF verifier !~ (
        '^SCRAM-SHA-256\$[0-9]{4,7}:[A-Za-z0-9+/]{16,64}={0,2}\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=$'
    ) IS NOT false THEN
        RAISE EXCEPTION 'the secret is no SCRAM verifier; allowed: what PQencryptPasswordConn makes of it'
            USING ERRCODE = 'FWINV';
    END IF;
END
$$;
