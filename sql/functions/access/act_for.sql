-- From here to its end the transaction has the rights of one account, and no others: it sees, submits and
-- changes the jobs of that Owner. What decides about rights (own_owners, sees_all, is_admin) asks acting_for,
-- so every function and view works for the account as for a role that was granted this Owner alone; an
-- administrator's rights are gone too.
--
-- For services that know by themselves who asks: an access point, by the kernel. Which accounts these serve
-- is theirs to decide, but for root, which is nobody's Owner.
-- Errors: FWDEN (root, no account's name, or a role that is not a member of fetchwork_access_point).
CREATE OR REPLACE FUNCTION fetchwork.act_for(owner text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role(fetchwork.invoker(), 'fetchwork_access_point', 'USAGE') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'role %L may not act for others; allowed: members of fetchwork_access_point',
                fetchwork.invoker()
            );
    END IF;
    IF owner IS NULL OR owner !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$' OR lower(owner) IN ('root', 'toor') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format('nobody acts for Owner %L; allowed: an account name, never root', owner);
    END IF;
    PERFORM set_config('fetchwork.acting_for', owner, true);
END
$$;
