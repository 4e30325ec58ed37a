-- What a service asks before it reads a submission: the cluster that its owner submitted under this key
-- (submitted_as), with is_made, or else a new id for it (reserve_cluster).
-- Errors: as reserve_cluster.
CREATE OR REPLACE FUNCTION fetchwork.begin_submission(owner text, key text)
RETURNS TABLE (cluster_id integer, is_made boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    cluster_id := fetchwork.submitted_as(begin_submission.owner, begin_submission.key);
    is_made := cluster_id IS NOT NULL;
    IF NOT is_made THEN
        cluster_id := fetchwork.reserve_cluster();
    END IF;
    RETURN NEXT;
END
$$;
