-- Registers the public key of the session's host, to which credentials are sealed for it from now on; copies
-- that are sealed to its earlier key are deleted. Whether a host with the pool's private key has been at work
-- within the last minute to make such copies; false for a host whose identity was copied. An agent repeats
-- this each minute or so.
-- Errors: FWDEN (not a joined host, its identity is over or revoked), FWINV (not a key of X25519). Locks: the
-- identity, if the key is another one.
CREATE OR REPLACE FUNCTION fetchwork.register_host_key(public_key bytea)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own integer := fetchwork.own_host(copied => false);
    present bytea;
BEGIN
    PERFORM fetchwork.require_host(fetchwork.own_host());
    IF octet_length(public_key) IS DISTINCT FROM 32 THEN
        RAISE EXCEPTION 'a public key has another length; allowed: the 32 bytes of a key of X25519'
            USING ERRCODE = 'FWINV';
    END IF;
    IF own IS NULL THEN
        RETURN false;
    END IF;
    SELECT i.credential_key
    INTO present
    FROM fetchwork.host_identity AS i
    WHERE i.host_id = own;
    IF present IS DISTINCT FROM public_key THEN
        -- not if it was revoked since
        UPDATE fetchwork.host_identity AS i
        SET credential_key = public_key
        WHERE i.host_id = own AND i.revoked_at IS NULL;
        DELETE FROM fetchwork.host_credential AS h
        WHERE h.host_id = own;
    END IF;
    RETURN EXISTS (
        SELECT FROM fetchwork.leader_task AS t
        WHERE t.name = 'seal' AND t.taken_at > clock_timestamp() - interval '1 minute'
    );
END
$$;
