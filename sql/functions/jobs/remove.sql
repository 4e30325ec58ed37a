-- Removes jobs (condor_rm): one that waits goes to history at once, one that runs is Removed (X) at once and
-- its run ended at its next update. ABORTED event (009). Returns how many were removed.
CREATE OR REPLACE FUNCTION fetchwork.remove(jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    job fetchwork.job;
    removed integer := 0;
    why text := coalesce(remove.reason, format('via fetchwork rm (by %s)', role));
BEGIN
    FOR job IN
        SELECT s.*
        FROM fetchwork.selected_jobs(jobs, remove.owner, role) AS s
        WHERE s.job_status <> 3
    LOOP
        PERFORM fetchwork.remove_job(job, why);
        removed := removed + 1;
    END LOOP;
    RETURN removed;
END
$$;
