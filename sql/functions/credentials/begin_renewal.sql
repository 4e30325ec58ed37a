-- May the agent of this live run ask the issuer for a new token of a credential that its job asks for? It may
-- for a minute, and no other agent then: an issuer may take the second use of a refresh token for a theft.
-- Nobody may who holds one that is half a minute old and still good: some issuers' tokens are short-lived.
-- False as well if the version is not the current one: somebody has renewed it, or stored another.
-- Locks the credential. Errors: FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.begin_renewal(run_id bigint, token uuid, name text, version bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    UPDATE fetchwork.credential AS c
    SET renewing_until = clock_timestamp() + interval '1 minute',
        renewing_run = begin_renewal.run_id,
        renewing_token = (SELECT r.token FROM fetchwork.run AS r WHERE r.run_id = begin_renewal.run_id)
    FROM fetchwork.run_credentials(begin_renewal.run_id, begin_renewal.token) AS n
    WHERE n.name = begin_renewal.name
        AND c.owner = n.owner
        AND c.name = n.name
        AND c.version = begin_renewal.version
        AND c.renewable
        AND coalesce(c.renewing_until <= clock_timestamp(), true)
        AND (
            coalesce(c.renewed_at < clock_timestamp() - interval '30 seconds', true)
            OR c.expires_at <= clock_timestamp()
        );
    RETURN FOUND;
END
$$;
