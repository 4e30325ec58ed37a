-- Detector 2 of dead runs: the agent saw the starter process end, and no JOB_EXIT came within seconds. False
-- if the run had ended. A run that did not pass the fence counts as one that could not start.
CREATE OR REPLACE FUNCTION fetchwork.starter_gone(
    run_id bigint,
    token uuid,
    reason text DEFAULT 'the starter ended without a report'
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
    IF live.state = 'running' THEN
        PERFORM fetchwork.lose_run(live, starter_gone.reason);
    ELSE
        PERFORM fetchwork.give_up_offer(live);
    END IF;
    RETURN true;
END
$$;
