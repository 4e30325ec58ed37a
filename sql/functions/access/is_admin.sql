-- Whether this role may act on the jobs of every owner, and set limits and factors: fetchwork_admin, the
-- schema's owner, superusers; not while it acts for an account.
CREATE OR REPLACE FUNCTION fetchwork.is_admin(role name)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN fetchwork.acting_for(role) IS NULL
    AND (
        pg_has_role(role, 'fetchwork_admin', 'USAGE')
        OR pg_has_role(role, (SELECT nspowner FROM pg_namespace WHERE nspname = 'fetchwork'), 'USAGE')
    );
