-- Replaces a credential by the same content sealed to the current key, so that runs keep their copies. False
-- if it was stored anew or renewed meanwhile, or the key is not the current one. Errors: FWDEN. Locks: the
-- credential.
CREATE OR REPLACE FUNCTION fetchwork.reseal_credential(
    owner text,
    name text,
    version bigint,
    key_id text,
    sealed bytea
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    UPDATE fetchwork.credential AS c
    SET key_id = k.key_id,
        sealed = reseal_credential.sealed
    FROM fetchwork.credential_key AS k
    WHERE k.key_id = reseal_credential.key_id
        AND k.current
        AND c.owner = reseal_credential.owner
        AND c.name = reseal_credential.name
        AND c.version = reseal_credential.version;
    RETURN FOUND;
END
$$;
