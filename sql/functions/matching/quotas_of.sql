-- The groups whose quotas bound the running jobs of these submitters: the group of each submitter and those
-- above it, if they take no surplus. Nothing bounds a submitter whose group competes again with all others
-- (autoregroup).
CREATE OR REPLACE FUNCTION fetchwork.quotas_of(submitters text [])
RETURNS TABLE (submitter text, name text)
LANGUAGE plpgsql
STABLE
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT f.submitter, f.name
    FROM (
        SELECT
            s.submitter, g.name, g.accept_surplus,
            first_value(g.autoregroup) OVER (PARTITION BY s.submitter ORDER BY length(g.name) DESC)
                AS competes
        FROM (SELECT DISTINCT u.submitter FROM unnest(quotas_of.submitters) AS u (submitter)) AS s
        CROSS JOIN LATERAL fetchwork.group_names(s.submitter) AS p
        JOIN fetchwork.accounting_group AS g ON lower(g.name) = p.name
        WHERE EXISTS (SELECT FROM fetchwork.accounting_group)
    ) AS f
    WHERE NOT f.accept_surplus AND NOT f.competes;
END
$$;
