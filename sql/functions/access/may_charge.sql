-- Whether this role's jobs may be charged to this submitter: its own Owners, groups granted to it, and
-- GROUP.OWNER of such a group and an Owner of its own. A group that every role may name would be a fresh
-- share for each name. HTCondor allows that, and so does the setting open_accounting_groups, except for
-- another's Owner.
CREATE OR REPLACE FUNCTION fetchwork.may_charge(role name, charged text)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    owners text[] := fetchwork.own_owners(may_charge.role);
    groups text[];
    -- USER in GROUP.USER, or the name alone
    member text := substring(charged FROM '[^.]*$');
BEGIN
    IF charged = ANY (owners) THEN
        RETURN true;
    END IF;
    IF fetchwork.setting_value('open_accounting_groups') = 1 THEN
        RETURN member = ANY (owners)
            OR NOT (
                EXISTS (SELECT FROM fetchwork.owner_grant AS g WHERE g.owner = member)
                -- an account that has no grant, because an access point acts for it
                OR EXISTS (SELECT FROM fetchwork.job AS j WHERE j.owner = member)
                OR EXISTS (SELECT FROM fetchwork.job_history AS h WHERE h.owner = member)
            );
    END IF;
    groups := fetchwork.own_groups(may_charge.role);
    RETURN charged = ANY (groups)
        OR (member = ANY (owners) AND left(charged, -1 - length(member)) = ANY (groups));
END
$$;
