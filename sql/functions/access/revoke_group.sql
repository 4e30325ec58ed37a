-- Revokes a grant of grant_group; false if the role did not have it.
CREATE OR REPLACE FUNCTION fetchwork.revoke_group(role name, accounting_group text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    DELETE FROM fetchwork.group_grant AS g
    WHERE g.role = revoke_group.role AND g.accounting_group = revoke_group.accounting_group;
    RETURN FOUND;
END
$$;
