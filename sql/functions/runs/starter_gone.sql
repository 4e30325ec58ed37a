-- Detector 2 of dead runs: the agent saw the starter process end, and no JOB_EXIT came within seconds. A run
-- that did not pass the fence counts as one that could not start. problem: the cause in the starter's log, if
-- any. False if the run had ended.
CREATE OR REPLACE FUNCTION fetchwork.starter_gone(
    run_id bigint,
    token uuid,
    problem text DEFAULT NULL
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
        PERFORM fetchwork.lose_run(live, coalesce(problem, 'the starter ended without a report'));
    ELSE
        PERFORM fetchwork.give_up_offer(live, problem);
    END IF;
    RETURN true;
END
$$;
