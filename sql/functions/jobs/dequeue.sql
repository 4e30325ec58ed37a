-- Takes a job out of the queue; true if it was waiting there, so that no claim has it or will have it. The
-- caller has locked the job's row. Waits for a claim of another transaction that holds the row of "waiting",
-- and then finds the row gone.
CREATE OR REPLACE FUNCTION fetchwork.dequeue(job fetchwork.job)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM fetchwork.waiting AS w
    WHERE w.autocluster_id = job.autocluster_id AND w.job_prio = job.job_prio AND w.position = job.position
        AND w.cluster_id = job.cluster_id AND w.proc_id = job.proc_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.end_demand(job.autocluster_id, job.job_prio);
    RETURN true;
END
$$;
