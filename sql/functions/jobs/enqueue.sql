-- Puts an Idle job at the end of the queue: now, or after a delay
-- (functions/maintenance/wake.sql). The caller has locked the job's row, and set job_status to 1.
CREATE OR REPLACE FUNCTION fetchwork.enqueue(cluster integer, proc integer, delay interval DEFAULT '0')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    queued record;
BEGIN
    IF delay > '0' THEN
        UPDATE fetchwork.job AS j
        SET not_before = clock_timestamp() + delay
        WHERE j.cluster_id = cluster AND j.proc_id = proc;
        RETURN;
    END IF;
    UPDATE fetchwork.job AS j
    SET position = nextval('fetchwork.position'), not_before = NULL
    WHERE j.cluster_id = cluster AND j.proc_id = proc
    RETURNING j.autocluster_id, j.job_prio, j.position INTO queued;
    INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
    VALUES (queued.autocluster_id, queued.job_prio, queued.position, cluster, proc);
    PERFORM fetchwork.ensure_demand(queued.autocluster_id, queued.job_prio);
END
$$;
