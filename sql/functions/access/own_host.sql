-- The host of a session that is_joined_host; NULL if it has no identity, or that was revoked or is over.
-- copied false: also NULL if the identity was found in two copies (renew_identity), which must not get jobs.
CREATE OR REPLACE FUNCTION fetchwork.own_host(copied boolean DEFAULT true)
RETURNS integer
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (
        SELECT i.host_id
        FROM fetchwork.host_identity AS i
        WHERE i.role = session_user
            AND i.revoked_at IS NULL
            AND i.valid_until > clock_timestamp()
            AND (own_host.copied OR i.copied_at IS NULL)
    );
END
$$;
