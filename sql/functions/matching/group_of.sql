-- The accounting group with a quota that a submitter belongs to: the deepest one that its name names. NULL:
-- none, HTCondor's root group "<none>".
CREATE OR REPLACE FUNCTION fetchwork.group_of(submitter text)
RETURNS text
LANGUAGE plpgsql
STABLE
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN (
        SELECT g.name
        FROM fetchwork.group_names(group_of.submitter) AS p
        JOIN fetchwork.accounting_group AS g ON lower(g.name) = p.name
        ORDER BY length(g.name) DESC
        LIMIT 1
    );
END
$$;
