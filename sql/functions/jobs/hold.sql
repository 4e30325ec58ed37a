-- Holds jobs (condor_hold) at once, running ones too; their runs are ended at their next update. Returns how
-- many were held. code and subcode are HTCondor's; 1 is "at a user's request". Errors: FWNOT, FWDEN, FWINV.
CREATE OR REPLACE FUNCTION fetchwork.hold(
    jobs text [],
    reason text DEFAULT NULL,
    owner text DEFAULT NULL,
    code integer DEFAULT 1,
    subcode integer DEFAULT 0,
    gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.act_on_jobs('hold', jobs, hold.owner, hold.reason, hold.code, hold.subcode, hold.gone_ok);

-- The same for one job, '42.0', or one cluster, '42'.
CREATE OR REPLACE FUNCTION fetchwork.hold(job text, reason text DEFAULT NULL)
RETURNS integer
LANGUAGE sql
RETURN fetchwork.hold(ARRAY[job], hold.reason);
