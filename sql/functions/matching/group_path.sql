-- The names that a submitter's accounting group can have (group_names), from the top, as an array; NULL:
-- none.
CREATE OR REPLACE FUNCTION fetchwork.group_path(submitter text)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
BEGIN ATOMIC
    SELECT array_agg(p.name ORDER BY length(p.name))
    FROM fetchwork.group_names(group_path.submitter) AS p;
END;
