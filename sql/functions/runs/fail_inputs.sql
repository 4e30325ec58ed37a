-- Ends a run whose PREPARE_JOB could not fetch the job's inputs after the fence had let it start. The job is
-- Held with HTCondor's code for it (13, 32), as by a schedd. A subcode of -1000 and below (no plugin, a
-- plugin that can't be run or has no result) means that the host was at fault (condor_holdcodes.h): that job
-- is tried again, like any that could not start. If the run's end was requested meanwhile, the request
-- decides. False if the run is over.
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
    PERFORM fetchwork.hold_jobs(
        ARRAY[live.cluster_id], ARRAY[live.proc_id], fail_inputs.reason, fail_inputs.code, fail_inputs.subcode
    );
    RETURN true;
END
$$;
