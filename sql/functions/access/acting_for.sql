-- The account that this transaction acts for (act_for), NULL if it acts for none. Any session can set the
-- setting behind it, so it counts only for members of fetchwork_access_point: it adds nothing to other roles'
-- rights and takes nothing from them. An access point that joined and may not act for the account
-- (may_act_for) gets '', the name of no account, and so no rights at all.
CREATE OR REPLACE FUNCTION fetchwork.acting_for(role name)
RETURNS text
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN CASE
    WHEN coalesce(current_setting('fetchwork.acting_for', true), '') = '' THEN NULL
    WHEN NOT pg_has_role(role, 'fetchwork_access_point', 'USAGE') THEN NULL
    WHEN NOT fetchwork.may_act_for(current_setting('fetchwork.acting_for', true)) THEN ''
    ELSE current_setting('fetchwork.acting_for', true)
END;
