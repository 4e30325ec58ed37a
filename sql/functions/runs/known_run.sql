-- live_run, for callers that only ask whether the run still needs them: a row of NULLs if it has ended.
-- Errors: FWNOT (no such run), FWTOK.
CREATE OR REPLACE FUNCTION fetchwork.known_run(run_id bigint, token uuid)
RETURNS fetchwork.run
LANGUAGE plpgsql
AS $$
DECLARE
    live fetchwork.run := fetchwork.live_run(known_run.run_id, known_run.token);
BEGIN
    IF live.run_id IS NULL THEN
        PERFORM fetchwork.ended_run(known_run.run_id, known_run.token);
    END IF;
    RETURN live;
END
$$;
