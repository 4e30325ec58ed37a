-- The live run with this id, locked together with its job; a row of NULLs if it has ended or never existed.
-- Errors: FWTOK (another run's token), 55P03.
-- Locks: the job, then the run, as every function that needs both. A claim holds neither while it waits. A
-- job's owner can lock its row in a transaction for any time: an agent's connection waits a second (SQLSTATE
-- 55P03 then), and the hook asks again.
CREATE OR REPLACE FUNCTION fetchwork.live_run(run_id bigint, token uuid)
RETURNS fetchwork.run
LANGUAGE plpgsql
SET lock_timeout = '1s'
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(live_run.run_id, live_run.token);
BEGIN
    IF live.run_id IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM fetchwork.job AS j
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id
    FOR UPDATE;
    SELECT r.*
    INTO live
    FROM fetchwork.run AS r
    WHERE r.run_id = live_run.run_id
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN live;
END
$$;
