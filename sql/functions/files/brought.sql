-- Counts the end of a job that waited for the delivery of its outputs (await_files), which are delivered now.
-- False if nothing waited: the job was held or removed meanwhile, or this is a repeated call.
-- Events: those of settle_exit. Locks: the job.
CREATE OR REPLACE FUNCTION fetchwork.brought(cluster integer, proc integer, run_id bigint)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    awaited fetchwork.bringing;
    ended fetchwork.run_history;
    exited fetchwork.run;
BEGIN
    PERFORM FROM fetchwork.job AS j
    WHERE j.cluster_id = brought.cluster AND j.proc_id = brought.proc
    FOR UPDATE;
    DELETE FROM fetchwork.bringing AS b
    WHERE b.cluster_id = brought.cluster AND b.proc_id = brought.proc AND b.run_id = brought.run_id
    RETURNING b.* INTO awaited;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT h.*
    INTO ended
    FROM fetchwork.run_history AS h
    WHERE h.run_id = awaited.run_id;
    -- the ended run in the form of a live one
    exited := jsonb_populate_record(NULL::fetchwork.run, to_jsonb(ended));
    -- the history of a job names its last run
    IF coalesce(awaited.verdict ->> 'action', 'complete') IN ('complete', 'remove') THEN
        UPDATE fetchwork.job AS j
        SET run_id = awaited.run_id
        WHERE j.cluster_id = brought.cluster AND j.proc_id = brought.proc;
    END IF;
    PERFORM fetchwork.settle_exit(exited, ended.report, awaited.verdict, awaited.run_s);
    RETURN true;
END
$$;
