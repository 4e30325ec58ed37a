-- Ends a run before its start: PREPARE_JOB found, as the job's user, that the job can't start here (Cmd is
-- missing, ...), or the agent found that the account does not exist. code: HTCondor's hold code for the
-- cause. False if the run is over or has started.
CREATE OR REPLACE FUNCTION fetchwork.refuse_start(
    run_id bigint,
    token uuid,
    reason text,
    code integer DEFAULT 6
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
    IF live.run_id IS NULL OR live.state = 'running' THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.could_not_start(live, refuse_start.reason, refuse_start.code);
    RETURN true;
END
$$;
