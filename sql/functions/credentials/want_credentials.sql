-- Asks for copies of the credentials of a live run's job, sealed to the key of the run's host, which is the
-- session's. Copies that it has already are left as they are. False if the host has registered no key or its
-- identity was copied: it gets none. Errors: FWTOK (another run's token). Locks: the copies.
CREATE OR REPLACE FUNCTION fetchwork.want_credentials(run_id bigint, token uuid)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own integer;
BEGIN
    SELECT i.host_id
    INTO own
    FROM fetchwork.host_identity AS i
    WHERE i.host_id = fetchwork.own_host(copied => false) AND i.credential_key IS NOT NULL;
    INSERT INTO fetchwork.host_credential AS h (host_id, owner, name)
    SELECT own, n.owner, n.name
    FROM fetchwork.run_credentials(want_credentials.run_id, want_credentials.token) AS n
    WHERE own IS NOT NULL AND n.version IS NOT NULL
    ORDER BY n.name
    ON CONFLICT ON CONSTRAINT host_credential_pkey DO UPDATE
        SET wanted_at = clock_timestamp(),
            version = NULL,
            sealed = NULL
        WHERE h.version <> (
            SELECT c.version
            FROM fetchwork.credential AS c
            WHERE c.owner = h.owner AND c.name = h.name
        );
    RETURN own IS NOT NULL;
END
$$;
