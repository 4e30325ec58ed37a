-- Raises FWDEN if the caller is not an administrator.
CREATE OR REPLACE FUNCTION fetchwork.require_admin()
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT fetchwork.is_admin(fetchwork.invoker()) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'role %L is not an administrator; allowed: members of fetchwork_admin',
                fetchwork.invoker()
            );
    END IF;
END
$$;
