-- Lets a database role charge its jobs to an accounting group: to GROUP itself, and to GROUP.OWNER for each
-- Owner that it may name. Errors: FWDEN, FWNOT (the role), FWINV (the name).
CREATE OR REPLACE FUNCTION fetchwork.grant_group(role name, accounting_group text)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    PERFORM fetchwork.require_role(grant_group.role);
    IF grant_group.accounting_group !~ '^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,249}$' THEN
        RAISE EXCEPTION '% is not the name of an accounting group; allowed: letters, digits, _ . @ -',
            quote_nullable(grant_group.accounting_group) USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.group_grant (role, accounting_group)
    VALUES (grant_group.role, grant_group.accounting_group)
    ON CONFLICT DO NOTHING;
END
$$;
