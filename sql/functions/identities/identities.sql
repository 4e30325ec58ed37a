-- For an administrator: the hosts that joined, by name, with the state of each identity ('valid', 'over',
-- 'copied', 'revoked'). Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.identities()
RETURNS TABLE (
    host text,
    state text,
    role name,
    invitation integer,
    agent_version text,
    location text,
    seen_at timestamptz,
    joined_at timestamptz,
    renewed_at timestamptz,
    valid_until timestamptz
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    RETURN QUERY
    SELECT
        h.name,
        CASE
            WHEN i.revoked_at IS NOT NULL THEN 'revoked'
            WHEN i.copied_at IS NOT NULL THEN 'copied'
            WHEN i.valid_until < clock_timestamp() THEN 'over'
            ELSE 'valid'
        END,
        i.role, i.invitation, h.agent_version, h.agent_location, h.seen_at, i.joined_at, i.renewed_at,
        i.valid_until
    FROM fetchwork.host_identity AS i
    JOIN fetchwork.host AS h ON h.host_id = i.host_id
    ORDER BY h.name;
END
$$;
