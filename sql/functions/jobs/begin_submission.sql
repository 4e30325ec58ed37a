-- The cluster that an owner submitted under this key, with is_made (submitted_as), or else a new id for it
-- (reserve_cluster); and max_jobs_per_submission. For services. Errors: as reserve_cluster.
CREATE OR REPLACE FUNCTION fetchwork.begin_submission(owner text, key text)
RETURNS TABLE (cluster_id integer, is_made boolean, most_jobs bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    cluster_id := fetchwork.submitted_as(begin_submission.owner, begin_submission.key);
    is_made := cluster_id IS NOT NULL;
    IF NOT is_made THEN
        cluster_id := fetchwork.reserve_cluster();
    END IF;
    most_jobs := (SELECT s.value FROM fetchwork.settings AS s WHERE s.name = 'max_jobs_per_submission');
    RETURN NEXT;
END
$$;
