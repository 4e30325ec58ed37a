-- Ends the running runs of jobs (condor_vacate_job), by their hosts and with the job's own signal and time;
-- the jobs wait again and are not charged a try. Returns how many runs are to end.
CREATE OR REPLACE FUNCTION fetchwork.vacate(jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    clusters integer[];
    procs integer[];
BEGIN
    SELECT array_agg(s.cluster_id), array_agg(s.proc_id)
    INTO clusters, procs
    FROM fetchwork.selected_jobs(jobs, vacate.owner, role) AS s
    WHERE s.job_status IN (2, 7);
    RETURN fetchwork.end_live_runs(
        clusters, procs, 'vacate', coalesce(vacate.reason, format('via fetchwork vacate (by %s)', role))
    );
END
$$;
