-- Whether a quota bounds the running jobs of a submitter: its group or one above it takes no surplus, and its
-- group does not compete again with all others (autoregroup). Claims must count for such a submitter.
CREATE OR REPLACE FUNCTION fetchwork.has_quota(submitter text)
RETURNS boolean
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT coalesce(bool_or(NOT g.accept_surplus), false)
        AND NOT coalesce((array_agg(g.autoregroup ORDER BY length(g.name) DESC)) [1], false)
    FROM fetchwork.accounting_group AS g
    WHERE lower(g.name) = ANY (fetchwork.group_path(has_quota.submitter));
END;
