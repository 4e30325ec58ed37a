-- Stops running jobs (condor_suspend): their processes keep slot and memory, and are not charged. Only
-- "continue" lets them go on: not their hosts, nor an update. Returns of how many.
-- Errors: as suspend_runs, act_on_jobs.
CREATE OR REPLACE FUNCTION fetchwork.suspend(
    jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.act_on_jobs('suspend', jobs, owner, reason, gone_ok => gone_ok);

-- The same for one job, '42.0', or one cluster, '42'.
CREATE OR REPLACE FUNCTION fetchwork.suspend(job text, reason text DEFAULT NULL)
RETURNS integer
LANGUAGE sql
RETURN fetchwork.suspend(ARRAY[job], reason);
