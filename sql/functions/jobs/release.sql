-- Releases held jobs (condor_release); a RELEASED event (013). A job whose run is still ending waits again
-- when it has ended. Returns how many were released.
CREATE OR REPLACE FUNCTION fetchwork.release(jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    clusters integer[];
    procs integer[];
    why text := coalesce(release.reason, format('via fetchwork release (by %s)', role));
BEGIN
    SELECT array_agg(s.cluster_id), array_agg(s.proc_id)
    INTO clusters, procs
    FROM fetchwork.selected_jobs(jobs, release.owner, role) AS s
    WHERE s.job_status = 5;
    IF clusters IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM fetchwork.release_jobs(clusters, procs, why);
    RETURN cardinality(clusters);
END
$$;
