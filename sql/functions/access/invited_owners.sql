-- The accounts that the session's access point was invited for, as a pattern of LIKE: '%' is all. NULL for
-- any other session (is_joined_point), and once its identity is over, revoked or copied. SECURITY DEFINER,
-- because no role reads invitations.
CREATE OR REPLACE FUNCTION fetchwork.invited_owners()
RETURNS text
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT translate(replace(v.owners, '_', '\_'), '*?', '%_')
        FROM fetchwork.host_identity AS i
        JOIN fetchwork.invitation AS v ON v.number = i.invitation
        WHERE i.role = session_user
            AND i.revoked_at IS NULL
            AND i.copied_at IS NULL
            AND i.valid_until > clock_timestamp()
    );
END
$$;
