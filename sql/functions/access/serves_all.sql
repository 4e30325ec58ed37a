-- Is this role an access point that serves everybody? One that acts for an account serves that account alone.
CREATE OR REPLACE FUNCTION fetchwork.serves_all(role name)
RETURNS boolean
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
RETURN pg_has_role(role, 'fetchwork_access_point', 'USAGE') AND fetchwork.acting_for(role) IS NULL;
