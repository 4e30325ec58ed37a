-- Whether the session logged in as the role of one access point, which an invitation let in (join_host). Such
-- a session acts for the accounts that the invitation names alone (may_act_for); SET ROLE does not change
-- that. Superusers are members of every role, and are not meant.
CREATE OR REPLACE FUNCTION fetchwork.is_joined_point()
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN pg_has_role(session_user, 'fetchwork_joined_point', 'USAGE')
    AND NOT pg_has_role(session_user, 'fetchwork_admin', 'USAGE');
