-- Refuses (FWDEN) a caller that may not name this Owner: credentials are its owner's alone.
CREATE OR REPLACE FUNCTION fetchwork.check_credential_owner(owner text)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    IF NOT fetchwork.is_admin(role) AND NOT coalesce(
        check_credential_owner.owner = ANY (fetchwork.own_owners(role)), false
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'role %L may not add or delete credentials of Owner %L', role, check_credential_owner.owner
            );
    END IF;
END
$$;
