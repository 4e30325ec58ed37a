-- Raises FWDEN if the caller may not make and revoke tokens of this Owner. A service that acts for people
-- (act_for) may not: a stolen one could make tokens that outlive its own role.
CREATE OR REPLACE FUNCTION fetchwork.require_token_maker(owner text)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF fetchwork.acting_for(fetchwork.invoker()) IS NOT NULL THEN
        RAISE EXCEPTION 'role % may not make or revoke tokens while it acts for an account',
            quote_nullable(fetchwork.invoker()) USING ERRCODE = 'FWDEN';
    END IF;
    PERFORM fetchwork.require_owner(require_token_maker.owner, 'make or revoke tokens');
END
$$;
