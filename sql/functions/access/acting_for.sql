-- The account that this transaction acts for (act_for), NULL where it acts for none. The setting behind it is
-- one that any session can make, so it counts for members of fetchwork_access_point only: to anybody else's
-- rights it adds nothing and from them it takes nothing.
CREATE OR REPLACE FUNCTION fetchwork.acting_for(role name)
RETURNS text
LANGUAGE sql
STABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN CASE
    WHEN coalesce(current_setting('fetchwork.acting_for', true), '') = '' THEN NULL
    WHEN pg_has_role(role, 'fetchwork_access_point', 'USAGE') THEN
        current_setting('fetchwork.acting_for', true)
END;
