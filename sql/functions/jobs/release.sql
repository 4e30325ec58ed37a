-- Releases held jobs (condor_release); a job whose run is still ending waits again after that. Returns how
-- many were released. Errors: as act_on_jobs, and FWDEN if a submitter would have too many idle jobs
-- (check_ceilings). Events: RELEASED (013).
CREATE OR REPLACE FUNCTION fetchwork.release(
    jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.act_on_jobs('release', jobs, release.owner, release.reason, gone_ok => release.gone_ok);

-- The same for one job, '42.0', or one cluster, '42'.
CREATE OR REPLACE FUNCTION fetchwork.release(job text, reason text DEFAULT NULL)
RETURNS integer
LANGUAGE sql
RETURN fetchwork.release(ARRAY[job], release.reason);
