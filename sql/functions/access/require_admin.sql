-- Raises FWDEN if the caller is not an administrator.
CREATE OR REPLACE FUNCTION fetchwork.require_admin()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT fetchwork.is_admin(fetchwork.invoker()) THEN
        RAISE EXCEPTION 'role % is not an administrator; allowed: members of fetchwork_admin',
            quote_nullable(fetchwork.invoker()) USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
