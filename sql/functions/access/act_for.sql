-- Gives the rest of the transaction the rights of one account, and no others: it sees, submits and changes
-- the jobs of that Owner. Everything that decides about rights (own_owners, sees_all, is_admin) reads
-- acting_for, so every function and view works for the account as for a role that was granted this Owner
-- alone; an administrator loses his rights too.
-- For services that know their callers by other means: an access point, by the kernel. Such a service decides
-- for which accounts it acts, except root, which can't be an Owner.
-- Errors: FWDEN (root, not an account's name, or a role that is not a member of fetchwork_access_point).
CREATE OR REPLACE FUNCTION fetchwork.act_for(owner text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role(fetchwork.invoker(), 'fetchwork_access_point', 'USAGE') THEN
        RAISE EXCEPTION 'role % may not act for others; allowed: members of fetchwork_access_point',
            quote_nullable(fetchwork.invoker()) USING ERRCODE = 'FWDEN';
    END IF;
    IF owner IS NULL OR owner !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$' OR lower(owner) IN ('root', 'toor') THEN
        RAISE EXCEPTION 'no role may act for Owner %; allowed: an account name, never root',
            quote_nullable(owner) USING ERRCODE = 'FWDEN';
    END IF;
    IF NOT fetchwork.may_act_for(act_for.owner) THEN
        RAISE EXCEPTION 'role % may not act for Owner %; allowed: those of its invitation, while its '
            'identity is valid',
            quote_nullable(session_user), quote_literal(act_for.owner) USING ERRCODE = 'FWDEN';
    END IF;
    PERFORM set_config('fetchwork.acting_for', owner, true);
END
$$;
