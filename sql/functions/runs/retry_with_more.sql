-- Makes a running job that used too much run again with larger requests (ask_for_more), instead of holding it
-- with this reason, code and subcode. The agent calls this before it kills the job, and JOB_EXIT then ends
-- the run as vacated. False if the run is over or to end. Locks: the job, then the run (live_run).
CREATE OR REPLACE FUNCTION fetchwork.retry_with_more(
    run_id bigint,
    token uuid,
    changes jsonb,
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
    live := fetchwork.live_run(retry_with_more.run_id, retry_with_more.token);
    IF live.run_id IS NULL OR live.state <> 'running' OR live.end_requested IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.ask_for_more(
        live.cluster_id, live.proc_id, changes, retry_with_more.code, retry_with_more.subcode
    );
    PERFORM fetchwork.end_live_runs(
        ARRAY[live.cluster_id], ARRAY[live.proc_id], 'vacate', retry_with_more.reason
    );
    -- so finish() does not take it for the job's own exit
    UPDATE fetchwork.run AS r
    SET signalled_at = clock_timestamp()
    WHERE r.run_id = live.run_id;
    RETURN true;
END
$$;
