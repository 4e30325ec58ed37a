-- The accounting groups that this role may charge. If it acts for an account: the groups granted to it, for
-- all accounts that it serves, and those of a role with the account's name.
CREATE OR REPLACE FUNCTION fetchwork.own_groups(role name)
RETURNS text[]
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT coalesce(array_agg(DISTINCT g.accounting_group), '{}')
    FROM fetchwork.group_grant AS g
    JOIN pg_catalog.pg_roles AS r ON r.rolname = g.role
    WHERE (pg_has_role(own_groups.role, r.oid, 'USAGE') OR g.role = fetchwork.acting_for(own_groups.role))
        AND pg_has_role(session_user, own_groups.role, 'MEMBER');
END;
