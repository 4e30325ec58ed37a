-- Credentials that are not sealed to the current key, for an administrator with both keys to seal them anew:
-- at most n, behind (after_owner, after_name). Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.sealed_otherwise(
    n integer,
    after_owner text DEFAULT '',
    after_name text DEFAULT ''
)
RETURNS TABLE (owner text, name text, version bigint, key_id text, sealed bytea)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    RETURN QUERY
    SELECT c.owner, c.name, c.version, c.key_id, c.sealed
    FROM fetchwork.credential AS c
    JOIN fetchwork.credential_key AS k ON k.key_id = c.key_id AND NOT k.current
    WHERE (c.owner, c.name) > (after_owner, after_name)
    ORDER BY c.owner, c.name
    LIMIT sealed_otherwise.n;
END
$$;
