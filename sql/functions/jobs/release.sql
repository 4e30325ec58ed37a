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
    job fetchwork.job;
    released integer := 0;
    why text := coalesce(release.reason, format('via fetchwork release (by %s)', role));
BEGIN
    FOR job IN
        SELECT s.*
        FROM fetchwork.selected_jobs(jobs, release.owner, role) AS s
        WHERE s.job_status = 5
    LOOP
        PERFORM fetchwork.release_job(job, why);
        released := released + 1;
    END LOOP;
    RETURN released;
END
$$;
