-- Releases held jobs (condor_release); a job whose run is still ending waits again after that. Returns how
-- many were released. Events: RELEASED (013).
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
