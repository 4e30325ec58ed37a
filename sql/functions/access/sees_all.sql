-- Whether this role sees the jobs of every owner: superusers, the owner of the schema, and members of
-- fetchwork_admin, fetchwork_reader, fetchwork_agent and fetchwork_access_point, which writes the event logs
-- of all owners; not while it acts for an account, nor if it was invited for some accounts.
CREATE OR REPLACE FUNCTION fetchwork.sees_all(role name)
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN fetchwork.acting_for(role) IS NULL
    AND fetchwork.may_act_for(NULL)
    AND (
        pg_has_role(role, 'fetchwork_reader', 'USAGE')
        OR pg_has_role(role, 'fetchwork_agent', 'USAGE')
        OR pg_has_role(role, 'fetchwork_access_point', 'USAGE')
        OR pg_has_role(role, 'fetchwork_admin', 'USAGE')
        OR pg_has_role(role, (SELECT nspowner FROM pg_namespace WHERE nspname = 'fetchwork'), 'USAGE')
    );
