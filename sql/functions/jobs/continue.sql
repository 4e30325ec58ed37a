-- Lets suspended jobs go on (condor_continue). Returns of how many.
-- Errors: as suspend_runs, act_on_jobs.
CREATE OR REPLACE FUNCTION fetchwork.continue(
    jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.act_on_jobs('continue', jobs, owner, reason, gone_ok => gone_ok);

-- The same for one job, '42.0', or one cluster, '42'.
CREATE OR REPLACE FUNCTION fetchwork.continue(job text, reason text DEFAULT NULL)
RETURNS integer
LANGUAGE sql
RETURN fetchwork.continue(ARRAY[job], reason);
