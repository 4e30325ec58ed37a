-- The accounting group with a quota that a submitter belongs to: the deepest one that its name names. NULL:
-- none, HTCondor's root group "<none>".
CREATE OR REPLACE FUNCTION fetchwork.group_of(submitter text)
RETURNS text
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT g.name
    FROM fetchwork.accounting_group AS g
    WHERE lower(g.name) = ANY (fetchwork.group_path(group_of.submitter))
    ORDER BY length(g.name) DESC
    LIMIT 1;
END;
