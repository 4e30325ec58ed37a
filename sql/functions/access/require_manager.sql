-- Raises FWDEN unless the caller may set this accounting group: an administrator, or a manager of a group
-- above it.
CREATE OR REPLACE FUNCTION fetchwork.require_manager(group_name text)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT fetchwork.is_admin(fetchwork.invoker()) AND NOT EXISTS (
        SELECT
        FROM fetchwork.accounting_group AS g
        CROSS JOIN unnest(g.managers) AS m (role)
        JOIN pg_catalog.pg_roles AS r ON r.rolname = m.role
        -- without the group itself, as of a submitter
        WHERE lower(g.name) = ANY (fetchwork.group_path(require_manager.group_name))
            AND pg_has_role(fetchwork.invoker(), r.oid, 'USAGE')
            AND fetchwork.acting_for(fetchwork.invoker()) IS NULL
    ) THEN
        RAISE EXCEPTION 'role % may not set group %; allowed: administrators and managers of a group '
            'above it',
            quote_nullable(fetchwork.invoker()), quote_nullable(require_manager.group_name)
            USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
