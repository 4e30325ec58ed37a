-- Holds jobs (condor_hold) at once, running ones too; their runs are ended at their next update. Returns how
-- many were held. code and subcode are HTCondor's; 1 is "at a user's request". Errors: FWNOT, FWDEN, FWINV.
CREATE OR REPLACE FUNCTION fetchwork.hold(
    jobs text [],
    reason text DEFAULT NULL,
    owner text DEFAULT NULL,
    code integer DEFAULT 1,
    subcode integer DEFAULT 0
)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    clusters integer[];
    procs integer[];
    why text := coalesce(hold.reason, format('via fetchwork hold (by %s)', role));
BEGIN
    SELECT array_agg(s.cluster_id), array_agg(s.proc_id)
    INTO clusters, procs
    FROM fetchwork.selected_jobs(jobs, hold.owner, role) AS s
    WHERE s.job_status NOT IN (3, 4, 5);
    IF clusters IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM fetchwork.hold_jobs(clusters, procs, why, hold.code, hold.subcode);
    RETURN cardinality(clusters);
END
$$;
