-- Removes jobs (condor_rm): a waiting job goes to history at once; a running one is Removed (X) at once and
-- its run is ended by its host. Returns how many were removed. Events: ABORTED (009).
CREATE OR REPLACE FUNCTION fetchwork.remove(jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    clusters integer[];
    procs integer[];
    why text := coalesce(remove.reason, format('via fetchwork rm (by %s)', role));
BEGIN
    SELECT array_agg(s.cluster_id), array_agg(s.proc_id)
    INTO clusters, procs
    FROM fetchwork.selected_jobs(jobs, remove.owner, role) AS s
    WHERE s.job_status <> 3;
    IF clusters IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM fetchwork.remove_jobs(clusters, procs, why);
    RETURN cardinality(clusters);
END
$$;
