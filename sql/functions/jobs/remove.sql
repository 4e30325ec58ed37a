-- Removes jobs (condor_rm): a waiting job goes to history at once; a running one is Removed (X) at once and
-- its run is ended by its host. Returns how many were removed. Events: ABORTED (009).
CREATE OR REPLACE FUNCTION fetchwork.remove(
    jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.act_on_jobs('remove', jobs, remove.owner, remove.reason, gone_ok => remove.gone_ok);

-- The same for one job, '42.0', or one cluster, '42'.
CREATE OR REPLACE FUNCTION fetchwork.remove(job text, reason text DEFAULT NULL)
RETURNS integer
LANGUAGE sql
RETURN fetchwork.remove(ARRAY[job], remove.reason);
