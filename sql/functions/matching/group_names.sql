-- The names that a submitter's accounting group can have, in lower case: "physics" and
-- "physics.atlas" for "physics.atlas.alice". The part after the last dot is the user, as for HTCondor's
-- negotiator; a name without a dot belongs to no group.
CREATE OR REPLACE FUNCTION fetchwork.group_names(submitter text)
RETURNS TABLE (name text)
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
BEGIN ATOMIC
    SELECT array_to_string(part.names [1:n], '.')
    FROM string_to_array(lower(split_part(group_names.submitter, '@', 1)), '.') AS part (names)
    CROSS JOIN generate_series(1, cardinality(part.names) - 1) AS n;
END;
