-- PREPARE_JOB could not bring a job's inputs into its sandbox, after the fence had said yes: the run ends,
-- and the job is Held with HTCondor's code for it (13, 32), as a schedd would hold it. A subcode of -1000 and
-- below (no plugin, one that can't be run, one without a result) says that the host was at fault
-- (condor_holdcodes.h): such a job is tried again, as any that could not start. A job whose end was asked for
-- meanwhile goes that way. False if the run is over.
-- Locks: the job, then the run (live_run).
CREATE OR REPLACE FUNCTION fetchwork.fail_inputs(
    run_id bigint,
    token uuid,
    reason text,
    code integer,
    subcode integer
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
BEGIN
    live := fetchwork.live_run(run_id, token);
    IF live.run_id IS NULL THEN
        RETURN false;
    END IF;
    IF live.end_requested IS NULL AND fail_inputs.subcode <= -1000 THEN
        PERFORM fetchwork.could_not_start(
            live, fail_inputs.reason, fail_inputs.code, NULL, fail_inputs.subcode
        );
        RETURN true;
    END IF;
    PERFORM fetchwork.close_run(live, 'could_not_start', fail_inputs.reason);
    IF live.started_at IS NOT NULL THEN
        PERFORM fetchwork.record_eviction(live, fail_inputs.reason);
    END IF;
    IF live.end_requested IS NOT NULL THEN
        PERFORM fetchwork.back_to_idle(live, live.end_reason);
        RETURN true;
    END IF;
    -- not while it runs: the event comes now
    UPDATE fetchwork.job AS j
    SET run_id = NULL
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id AND j.job_status = 1;
    PERFORM fetchwork.hold_job(
        live.cluster_id, live.proc_id, fail_inputs.reason, fail_inputs.code, fail_inputs.subcode
    );
    UPDATE fetchwork.job AS j
    SET run_id = NULL
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    RETURN true;
END
$$;
