-- Ends the running runs of jobs (condor_vacate_job), by their hosts and with the job's own signal and time;
-- the jobs wait again and are not charged a try. Returns how many runs are to end.
CREATE OR REPLACE FUNCTION fetchwork.vacate(
    jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.act_on_jobs('vacate', jobs, vacate.owner, vacate.reason, gone_ok => vacate.gone_ok);

-- The same for one job, '42.0', or one cluster, '42'.
CREATE OR REPLACE FUNCTION fetchwork.vacate(job text, reason text DEFAULT NULL)
RETURNS integer
LANGUAGE sql
RETURN fetchwork.vacate(ARRAY[job], vacate.reason);
