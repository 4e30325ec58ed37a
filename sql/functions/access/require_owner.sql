-- Raises FWDEN if the caller may not name this Owner, for acts that only an owner may do; "act" names the act
-- in the message.
CREATE OR REPLACE FUNCTION fetchwork.require_owner(owner text, act text)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    IF NOT fetchwork.is_admin(role) AND NOT coalesce(
        require_owner.owner = ANY (fetchwork.own_owners(role)), false
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format('role %L may not %s of Owner %L', role, require_owner.act, require_owner.owner);
    END IF;
END
$$;
