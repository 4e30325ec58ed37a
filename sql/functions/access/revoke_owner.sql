-- Revokes a grant of grant_owner; false if the role did not have it.
CREATE OR REPLACE FUNCTION fetchwork.revoke_owner(role name, owner text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    DELETE FROM fetchwork.owner_grant AS g
    WHERE g.role = revoke_owner.role AND g.owner = revoke_owner.owner;
    RETURN FOUND;
END
$$;
