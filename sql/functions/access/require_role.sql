-- Raises FWNOT if PostgreSQL has no role of that name. For functions that grant it a right.
CREATE OR REPLACE FUNCTION fetchwork.require_role(role name)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = require_role.role) THEN
        RAISE EXCEPTION 'role % does not exist in this PostgreSQL',
            quote_nullable(require_role.role) USING ERRCODE = 'FWNOT';
    END IF;
END
$$;
