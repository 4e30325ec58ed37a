-- Holds a job at once that can't start for a reason for which HTCondor's shadow would hold it, with the
-- shadow's code and subcode, from the starter's log or from PREPARE_JOB, which ran as the job's user;
-- withdraws the run if its end was requested. False if the run is over. The job's user can forge the
-- starter's log, so it is believed about that job alone.
CREATE OR REPLACE FUNCTION fetchwork.start_failed(
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
    live := fetchwork.known_run(run_id, token);
    IF live.run_id IS NULL THEN
        RETURN false;
    END IF;
    IF live.end_requested IS NOT NULL THEN
        PERFORM fetchwork.finish_not_run(live, '{}');
        RETURN true;
    END IF;
    PERFORM fetchwork.could_not_start(
        live, start_failed.reason, start_failed.code, NULL, start_failed.subcode, at_once => true
    );
    RETURN true;
END
$$;
