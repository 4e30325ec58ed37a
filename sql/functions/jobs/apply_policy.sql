-- Does what a policy expression of a job demands ('hold', 'release', 'remove', 'vacate'), which the calling
-- agent found true; 'leave': LeaveJobInQueue of a Completed job is no longer true. False, with nothing done,
-- if the job no longer has the JobStatus that the agent saw (status), or is Removed and only its run still
-- ends; with run_id also if that run is over, because one run's usage says nothing about the next.
-- Locks: the job, if no other transaction holds it: its owner may lock it for any time, and a later pass
-- follows.
CREATE OR REPLACE FUNCTION fetchwork.apply_policy(
    cluster integer,
    proc integer,
    status integer,
    action text,
    reason text,
    code numeric DEFAULT 3,
    subcode numeric DEFAULT 0,
    run_id bigint DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job fetchwork.job;
    -- a submitter's expression may give any number
    safe_code integer := least(greatest(code, 0), 2147483647);
    safe_subcode integer := least(greatest(subcode, -2147483648), 2147483647);
BEGIN
    IF action NOT IN ('hold', 'release', 'remove', 'vacate', 'leave') THEN
        RAISE EXCEPTION 'policy action is %; allowed: hold, release, remove, vacate, leave',
            quote_nullable(action) USING ERRCODE = 'FWINV';
    END IF;
    IF NOT EXISTS (
        SELECT FROM fetchwork.run AS r
        WHERE r.run_id = apply_policy.run_id
            AND r.cluster_id = cluster
            AND r.proc_id = proc
            AND fetchwork.is_own_host(r.host_id)
    ) THEN
        PERFORM fetchwork.require_trusted_host();
    END IF;
    SELECT j.*
    INTO job
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id = proc AND j.job_status = status AND j.job_status <> 3
        AND (apply_policy.run_id IS NULL OR j.run_id = apply_policy.run_id)
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF (action = 'leave') <> (job.job_status = 4) THEN
        -- LeaveJobInQueue is the only policy of a Completed job, and counts for no other
        RETURN false;
    ELSIF action = 'leave' THEN
        PERFORM fetchwork.leave_queue(ARRAY[cluster], ARRAY[proc]);
    ELSIF action = 'remove' THEN
        PERFORM fetchwork.remove_jobs(ARRAY[cluster], ARRAY[proc], apply_policy.reason);
    ELSIF action = 'hold' AND job.job_status <> 5 THEN
        PERFORM fetchwork.hold_jobs(
            ARRAY[cluster], ARRAY[proc], apply_policy.reason, safe_code, safe_subcode
        );
    ELSIF action = 'release' AND job.job_status = 5 THEN
        PERFORM fetchwork.release_jobs(ARRAY[cluster], ARRAY[proc], apply_policy.reason);
    ELSIF action = 'vacate' AND job.job_status IN (2, 7) THEN
        PERFORM fetchwork.end_live_runs(ARRAY[cluster], ARRAY[proc], 'vacate', apply_policy.reason);
    ELSE
        RETURN false;
    END IF;
    RETURN true;
END
$$;
