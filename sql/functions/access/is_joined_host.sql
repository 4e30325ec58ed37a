-- Whether the session logged in as the role of one host, which an invitation let in (join_host). Such a
-- session acts for that host alone; SET ROLE does not change that. Members of fetchwork_agent are trusted
-- with every host, and superusers are members of every role. Inlined: it stands in the statements of claims.
CREATE OR REPLACE FUNCTION fetchwork.is_joined_host()
RETURNS boolean
LANGUAGE sql
STABLE
RETURN pg_has_role(session_user, 'fetchwork_host', 'USAGE')
    AND NOT pg_has_role(session_user, 'fetchwork_agent', 'USAGE');
