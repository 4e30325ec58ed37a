-- Stores the renewed credential that the agent of a run got for its job, sealed anew; returns its new
-- version. NULL if the renewed version is no longer the current one. The run may have ended meanwhile, if its
-- agent asked last (begin_renewal), because the old refresh token may no longer be valid.
-- Errors: FWTOK (another run's token), FWINV (an unknown key, too long). Locks: the credential.
CREATE OR REPLACE FUNCTION fetchwork.renew_credential(
    run_id bigint,
    token uuid,
    name text,
    version bigint,
    key_id text,
    sealed bytea,
    expires_at timestamptz
)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    of_owner text;
    renewed bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.credential_key AS k WHERE k.key_id = renew_credential.key_id)
        OR octet_length(renew_credential.sealed) > 65536
    THEN
        RAISE EXCEPTION 'a renewed credential is too long, or sealed to a key that is not known'
            USING ERRCODE = 'FWINV';
    END IF;
    SELECT n.owner
    INTO of_owner
    FROM fetchwork.run_credentials(renew_credential.run_id, renew_credential.token) AS n
    WHERE n.name = renew_credential.name;
    IF NOT FOUND THEN
        SELECT c.owner
        INTO of_owner
        FROM fetchwork.credential AS c
        WHERE c.renewing_run = renew_credential.run_id
            AND c.name = renew_credential.name
            AND fetchwork.proves(
                renew_credential.token,
                c.renewing_token,
                coalesce(
                    (SELECT r.host_id FROM fetchwork.run AS r WHERE r.run_id = c.renewing_run),
                    (SELECT h.host_id FROM fetchwork.run_history AS h WHERE h.run_id = c.renewing_run)
                )
            );
    END IF;
    UPDATE fetchwork.credential AS c
    SET version = nextval('fetchwork.credential_version'),
        key_id = renew_credential.key_id,
        sealed = renew_credential.sealed,
        expires_at = renew_credential.expires_at,
        renewed_at = clock_timestamp(),
        renewing_until = NULL,
        renewing_run = NULL,
        renewing_token = NULL
    WHERE c.owner = of_owner
        AND c.name = renew_credential.name
        AND c.version = renew_credential.version
    RETURNING c.version
    INTO renewed;
    RETURN renewed;
END
$$;
