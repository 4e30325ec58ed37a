-- Makes this the public key that credentials are sealed to from now on. True if it was another one before.
-- Deletes keys that no credential is sealed to any more, except those that an open transaction uses.
-- Errors: FWDEN, FWINV (not a key of X25519). Locks: the table of keys, so that of two callers the second
-- wins; transactions that store a credential do not wait for it.
CREATE OR REPLACE FUNCTION fetchwork.publish_credential_key(public_key bytea)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    id text := left(encode(sha256(public_key), 'hex'), 16);
BEGIN
    PERFORM fetchwork.require_admin();
    IF octet_length(public_key) IS DISTINCT FROM 32 THEN
        RAISE EXCEPTION 'a public key has another length; allowed: the 32 bytes of a key of X25519'
            USING ERRCODE = 'FWINV';
    END IF;
    LOCK TABLE fetchwork.credential_key IN SHARE UPDATE EXCLUSIVE MODE;
    DELETE FROM fetchwork.credential_key AS d
    WHERE d.key_id IN (
        SELECT k.key_id
        FROM fetchwork.credential_key AS k
        WHERE k.key_id <> id
            AND NOT k.current
            AND NOT EXISTS (SELECT FROM fetchwork.credential AS c WHERE c.key_id = k.key_id)
        FOR UPDATE SKIP LOCKED
    );
    IF EXISTS (SELECT FROM fetchwork.credential_key AS k WHERE k.key_id = id AND k.current) THEN
        RETURN false;
    END IF;
    UPDATE fetchwork.credential_key AS k
    SET current = false
    WHERE k.current;
    INSERT INTO fetchwork.credential_key (key_id, public_key)
    VALUES (id, publish_credential_key.public_key)
    ON CONFLICT ON CONSTRAINT credential_key_pkey DO UPDATE
        SET current = true;
    RETURN true;
END
$$;
