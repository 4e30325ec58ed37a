-- Whether the agent of this live run may request a new token from the issuer of a credential of its job. If
-- so, no other agent may for a minute: an issuer may take a second use of a refresh token for a theft. False
-- for a credential that was renewed less than half a minute ago and is still good, because some issuers'
-- tokens are short-lived; and for a version that is not the current one, because it was renewed or replaced
-- meanwhile.
-- Errors: FWTOK (another run's token). Locks: the credential.
CREATE OR REPLACE FUNCTION fetchwork.begin_renewal(run_id bigint, token uuid, name text, version bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
