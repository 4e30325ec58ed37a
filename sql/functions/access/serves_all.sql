-- Whether this role is an access point that serves all accounts: one that acts for an account serves it
-- alone.
CREATE OR REPLACE FUNCTION fetchwork.serves_all(role name)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN pg_has_role(role, 'fetchwork_access_point', 'USAGE') AND fetchwork.acting_for(role) IS NULL
    AND fetchwork.may_act_for(NULL);
