-- Asks for the end of a job's live run, if it has one. A run that has not started is withdrawn at once, and
-- the fence refuses it from then on; a started run is ended by its host's agent when it gets the
-- notification, or at its next update. True if a started run is still to end. The caller has locked the job
-- and set its status.
-- Locks: the run.
CREATE OR REPLACE FUNCTION fetchwork.end_live_run(cluster integer, proc integer, request text, reason text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    live fetchwork.run;
BEGIN
    SELECT r.*
    INTO live
    FROM fetchwork.run AS r
    WHERE r.cluster_id = cluster AND r.proc_id = proc
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF live.state <> 'running' THEN
        PERFORM fetchwork.close_run(live, 'withdrawn', end_live_run.reason);
        RETURN false;
    END IF;
    UPDATE fetchwork.run AS r
    SET end_requested = request,
        end_reason = end_live_run.reason,
        job_status = CASE request WHEN 'remove' THEN 3 WHEN 'hold' THEN 5 ELSE r.job_status END
    WHERE r.run_id = live.run_id;
    PERFORM fetchwork.tell_end(live.host_id);
    RETURN true;
END
$$;
