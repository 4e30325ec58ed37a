-- Raises FWDEN if the caller may not name this Owner, for acts that only an owner may do; "act" names the act
-- in the message.
CREATE OR REPLACE FUNCTION fetchwork.require_owner(owner text, act text)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    IF NOT fetchwork.is_admin(role) AND NOT coalesce(
        require_owner.owner = ANY (fetchwork.own_owners(role)), false
    ) THEN
        RAISE EXCEPTION 'role % may not % of Owner %',
            quote_nullable(role), require_owner.act, quote_nullable(require_owner.owner)
            USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
