-- Holds one job without a live run, with HTCondor's hold code. Events: HELD (012). The caller has locked it.
CREATE OR REPLACE FUNCTION fetchwork.hold_job(
    cluster integer,
    proc integer,
    reason text,
    code integer,
    subcode integer
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM fetchwork.hold_jobs(
        ARRAY[cluster], ARRAY[proc], hold_job.reason, hold_job.code, hold_job.subcode
    );
    UPDATE fetchwork.job AS j
    SET run_id = NULL
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
END
$$;
