-- A policy expression of a job became true: the agent that evaluated it says what to do ('hold', 'release',
-- 'remove', 'vacate'). status is the JobStatus that the agent saw; if the job is not in it any more, or is
-- Removed and only its run still ends, nothing happens and the answer is false.
--
-- Locks: the job.
CREATE OR REPLACE FUNCTION fetchwork.apply_policy(
    cluster integer,
    proc integer,
    status integer,
    action text,
    reason text,
    code integer DEFAULT 3,
    subcode integer DEFAULT 0
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job fetchwork.job;
BEGIN
    IF action NOT IN ('hold', 'release', 'remove', 'vacate') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format('policy action is %L; allowed: hold, release, remove, vacate', action);
    END IF;
    SELECT j.*
    INTO job
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id = proc AND j.job_status = status AND j.job_status <> 3
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF action = 'remove' THEN
        PERFORM fetchwork.remove_job(job, apply_policy.reason);
    ELSIF action = 'hold' AND job.job_status <> 5 THEN
        PERFORM fetchwork.dequeue(job);
        PERFORM fetchwork.hold_job(cluster, proc, apply_policy.reason, code, subcode);
        PERFORM fetchwork.end_live_run(cluster, proc, 'hold', apply_policy.reason);
    ELSIF action = 'release' AND job.job_status = 5 THEN
        PERFORM fetchwork.release_job(job, apply_policy.reason);
    ELSIF action = 'vacate' AND job.job_status IN (2, 7) THEN
        PERFORM fetchwork.end_live_run(cluster, proc, 'vacate', apply_policy.reason);
    ELSE
        RETURN false;
    END IF;
    RETURN true;
END
$$;
