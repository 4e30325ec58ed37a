-- Whether the session has the role that hosts share, and an administrator has ended that (require_join).
-- Superusers are members of every role, and are not meant.
CREATE OR REPLACE FUNCTION fetchwork.must_join()
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM fetchwork.setting AS s WHERE s.name = 'require_join' AND s.value > 0)
        AND pg_has_role(session_user, 'fetchwork_agent', 'USAGE')
        AND NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = session_user);
END
$$;
