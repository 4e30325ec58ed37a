-- The copy of a credential that the session's host opens with its own key; no row if there is none of this
-- version, or the session is not that of a joined host. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.host_copy(owner text, name text, version bigint)
RETURNS TABLE (key_id text, sealed bytea)
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN QUERY
    SELECT left(encode(sha256(i.credential_key), 'hex'), 16), h.sealed
    FROM fetchwork.host_identity AS i
    JOIN fetchwork.host_credential AS h ON h.host_id = i.host_id
    WHERE i.role = session_user
        AND h.owner = host_copy.owner
        AND h.name = host_copy.name
        AND h.version = host_copy.version;
END
$$;
