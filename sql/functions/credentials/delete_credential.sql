-- Deletes a credential of an owner; false if it does not exist. Running jobs keep their copies; waiting jobs
-- that request it are Held when they would start. Errors: FWDEN (another's Owner).
CREATE OR REPLACE FUNCTION fetchwork.delete_credential(owner text, name text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_owner(delete_credential.owner, 'add or delete credentials');
    DELETE FROM fetchwork.credential AS c
    WHERE c.owner = delete_credential.owner AND c.name = delete_credential.name;
    RETURN FOUND;
END
$$;
