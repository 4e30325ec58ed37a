-- Copies of credentials that joined hosts want, at most the given number, for a host with the pool's private
-- key: the key to seal to, and the credential as it is stored. No other caller gets them for five seconds;
-- those that no caller got before come first. None for a host that was revoked or copied, or whose identity
-- is over.
-- Errors: FWDEN (a host that is not trusted). Locks: the copies, without waiting.
CREATE OR REPLACE FUNCTION fetchwork.credentials_to_seal(most integer)
RETURNS TABLE (
    host_id integer,
    public_key bytea,
    owner text,
    name text,
    version bigint,
    key_id text,
    sealed bytea
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM fetchwork.require_trusted_host();
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT h.host_id, h.owner, h.name, i.credential_key
        FROM fetchwork.host_credential AS h
        JOIN fetchwork.host_identity AS i ON i.host_id = h.host_id
        WHERE h.sealed IS NULL
            AND h.sealing_until <= clock_timestamp()
            AND i.credential_key IS NOT NULL
            AND i.revoked_at IS NULL
            AND i.copied_at IS NULL
            AND i.valid_until > clock_timestamp()
        ORDER BY h.sealing_until, h.wanted_at
        LIMIT credentials_to_seal.most
        FOR UPDATE OF h SKIP LOCKED
    ),

    taken AS (
        UPDATE fetchwork.host_credential AS h
        SET sealing_until = clock_timestamp() + interval '5 seconds'
        FROM wanted AS w
        WHERE h.host_id = w.host_id AND h.owner = w.owner AND h.name = w.name
        RETURNING h.host_id, w.credential_key, h.owner, h.name
    )

    SELECT t.host_id, t.credential_key, t.owner, t.name, c.version, c.key_id, c.sealed
    FROM taken AS t
    JOIN fetchwork.credential AS c ON c.owner = t.owner AND c.name = t.name;
END
$$;
