-- The cluster that an owner submitted under a key (note_submission); NULL if it is unknown.
CREATE OR REPLACE FUNCTION fetchwork.submitted_as(owner text, key text)
RETURNS integer
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT s.cluster_id
    FROM fetchwork.submission AS s
    WHERE s.owner = submitted_as.owner
        AND s.key = submitted_as.key
        AND (
            fetchwork.is_admin(fetchwork.invoker())
            OR s.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        );
END;
