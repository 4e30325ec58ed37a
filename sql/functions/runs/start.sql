-- The fence that PREPARE_JOB calls before the starter goes on: the run must be live, own its job, and not
-- have started. Returns NULL if the job may start, otherwise the reason why it must not.
-- starter identifies the calling starter (pid and start time): the same starter gets the same answer again
-- after a lost answer, another one is refused. This call also replaces a lost accept. The job is Running from
-- now on. Events: EXECUTE (001). Locks: as live_run.
CREATE OR REPLACE FUNCTION fetchwork.start(run_id bigint, token uuid, starter text, slot text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
    ended fetchwork.run_history;
BEGIN
    live := fetchwork.live_run(run_id, token);
    IF live.run_id IS NULL THEN
        ended := fetchwork.ended_run(run_id, token);
        RETURN format('run %s is over: %s', start.run_id, coalesce(ended.reason, ended.outcome::text));
    END IF;
    IF live.end_requested IS NOT NULL THEN
        RETURN format('run %s is to end: %s', start.run_id, coalesce(live.end_reason, live.end_requested));
    END IF;
    IF live.state = 'running' THEN
        IF live.starter IS NOT DISTINCT FROM start.starter AND live.starter IS NOT NULL THEN
            RETURN NULL;
        END IF;
        RETURN format('run %s has started already', start.run_id);
    END IF;

    -- its rows are locked, so start_runs does not skip it
    IF fetchwork.start_runs(
        ARRAY[start.run_id], ARRAY[start.token], ARRAY[start.starter], ARRAY[start.slot], ARRAY[NULL::float8]
    ) = '{}' THEN
        RETURN format('run %s could not be started: its job is gone', start.run_id);
    END IF;
    RETURN NULL;
END
$$;
