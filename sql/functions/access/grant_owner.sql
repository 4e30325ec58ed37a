-- Lets a database role submit jobs as an Owner (an account of the execute hosts, never root), and see and
-- change that Owner's jobs. Errors: FWDEN (also the Owner), FWNOT (the role).
CREATE OR REPLACE FUNCTION fetchwork.grant_owner(role name, owner text)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    PERFORM fetchwork.require_role(grant_owner.role);
    IF grant_owner.owner !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$'
        OR lower(grant_owner.owner) IN ('root', 'toor')
    THEN
        RAISE EXCEPTION 'Owner % can''t be granted; allowed: an account name, never root',
            quote_nullable(grant_owner.owner) USING ERRCODE = 'FWDEN';
    END IF;
    INSERT INTO fetchwork.owner_grant (role, owner)
    VALUES (grant_owner.role, grant_owner.owner)
    ON CONFLICT DO NOTHING;
END
$$;
