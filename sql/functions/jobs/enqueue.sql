-- Puts an Idle job at the end of the queue: now, or after a delay
-- (functions/maintenance/wake.sql). Where matching looks at what changes in a job's life (NumJobStarts), the
-- job moves to the autocluster of its present values. The caller has locked the job's row, and set job_status
-- to 1.
CREATE OR REPLACE FUNCTION fetchwork.enqueue(cluster integer, proc integer, delay interval DEFAULT '0')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    queued fetchwork.job;
    moved integer;
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
    RETURNING j.* INTO queued;
    SELECT fetchwork.ensure_autocluster(c.ad || queued.ad, queued)
    INTO moved
    FROM fetchwork.autocluster AS a
    JOIN fetchwork.cluster AS c ON c.cluster_id = queued.cluster_id
    WHERE a.autocluster_id = queued.autocluster_id AND fetchwork.follows_job(a.ad);
    IF moved <> queued.autocluster_id THEN
        UPDATE fetchwork.job AS j
        SET autocluster_id = moved
        WHERE j.cluster_id = cluster AND j.proc_id = proc;
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs)
        VALUES (queued.autocluster_id, queued.batch_id, -1), (moved, queued.batch_id, 1);
        queued.autocluster_id := moved;
    END IF;
    INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
    VALUES (queued.autocluster_id, queued.job_prio, queued.position, cluster, proc);
    PERFORM fetchwork.ensure_demand(queued.autocluster_id, queued.job_prio);
END
$$;
