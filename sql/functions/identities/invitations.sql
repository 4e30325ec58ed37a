-- For an administrator: the invitations that were made, the latest first. joined: how many hosts are in the
-- pool by it. Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.invitations()
RETURNS TABLE (
    number integer,
    hosts text,
    queues text [],
    uses integer,
    used integer,
    max_slots integer,
    trusted boolean,
    ephemeral boolean,
    owners text,
    valid_until timestamptz,
    invited_by text,
    invited_at timestamptz,
    ended_at timestamptz,
    joined bigint
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    RETURN QUERY
    SELECT
        v.number, v.hosts, v.queues, v.uses, v.used, v.max_slots, v.trusted, v.ephemeral, v.owners,
        v.valid_until, v.invited_by, v.invited_at, v.ended_at,
        (
            SELECT count(*)
            FROM fetchwork.host_identity AS i
            WHERE i.invitation = v.number AND i.revoked_at IS NULL
        )
    FROM fetchwork.invitation AS v
    ORDER BY v.number DESC;
END
$$;
