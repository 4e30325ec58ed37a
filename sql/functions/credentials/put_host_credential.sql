-- Stores the copy of a credential that was sealed to the key of a joined host. False if the host has another
-- key by now, was revoked or copied, or does not want the copy any more. A copy of a version that is not the
-- current one any more is of no use, and is wanted again.
-- Errors: FWDEN (a host that is not trusted), FWINV (too long). Locks: the identity, the copy.
CREATE OR REPLACE FUNCTION fetchwork.put_host_credential(
    host_id integer,
    public_key bytea,
    owner text,
    name text,
    version bigint,
    sealed bytea
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_trusted_host();
    IF coalesce(octet_length(put_host_credential.sealed), 0) NOT BETWEEN 1 AND 65536
        OR put_host_credential.version IS NULL
    THEN
        RAISE EXCEPTION 'a copy of a credential has another length; allowed: 1 to 65536 bytes, with a version'
            USING ERRCODE = 'FWINV';
    END IF;
    -- until the commit no other key is registered, and the host is not revoked
    PERFORM FROM fetchwork.host_identity AS i
    WHERE i.host_id = put_host_credential.host_id
        AND i.credential_key = put_host_credential.public_key
        AND i.revoked_at IS NULL
        AND i.copied_at IS NULL
    FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE fetchwork.host_credential AS h
    SET version = put_host_credential.version,
        sealed = put_host_credential.sealed,
        sealing_until = '-infinity'
    WHERE h.host_id = put_host_credential.host_id
        AND h.owner = put_host_credential.owner
        AND h.name = put_host_credential.name
        AND h.sealed IS NULL;
    RETURN FOUND;
END
$$;
