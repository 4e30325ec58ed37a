-- JOB_EXIT of a run that has ended already, for finish(): 'duplicate' if it has reported before, 'late' if
-- the report changes nothing, 'completed' if it counts as if it had come in time.
-- The report of a lost run is kept with the run. It counts if the job exited by itself (exited) and still
-- waits unclaimed: then the job need not run a second time.
-- Errors: FWNOT, FWTOK (ended_run). Locks: the job, if the report may count. A claim that takes the job at
-- the same moment wins: dequeue_jobs waits for it, and finds the job gone.
CREATE OR REPLACE FUNCTION fetchwork.finish_late(
    run_id bigint,
    token uuid,
    report jsonb,
    verdict jsonb,
    exited boolean
)
RETURNS text
LANGUAGE plpgsql
SET lock_timeout = '1s'
AS $$
DECLARE
    ended fetchwork.run_history := fetchwork.ended_run(finish_late.run_id, finish_late.token);
    waiting_job fetchwork.job;
    revived fetchwork.run;
    run_s double precision;
BEGIN
    IF ended.report IS NOT NULL OR ended.late_report IS NOT NULL THEN
        RETURN 'duplicate';
    END IF;
    UPDATE fetchwork.run_history AS h
    SET late_report = finish_late.report
    WHERE h.run_id = ended.run_id
        AND h.ended_at = ended.ended_at
        AND h.late_report IS NULL
        AND h.report IS NULL;
    IF NOT FOUND THEN
        RETURN 'duplicate';
    END IF;
    -- SIGKILL came most likely from the hook, after it heard that the run was lost
    IF ended.outcome <> 'lost' OR NOT exited OR finish_late.report @> '{"ExitSignal": 9}' THEN
        RETURN 'late';
    END IF;
    SELECT j.*
    INTO waiting_job
    FROM fetchwork.job AS j
    WHERE j.cluster_id = ended.cluster_id AND j.proc_id = ended.proc_id AND j.job_status = 1
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'late';
    END IF;
    -- a later run of the job, live or ended, has superseded this run
    IF EXISTS (
        SELECT FROM fetchwork.run_history AS h
        WHERE h.cluster_id = ended.cluster_id AND h.proc_id = ended.proc_id AND h.run_id > ended.run_id
    ) THEN
        RETURN 'late';
    END IF;
    -- outputs in its sandbox that were not kept while it was live (keep_outputs) are lost with the sandbox
    IF EXISTS (
            SELECT FROM fetchwork.cluster AS c
            WHERE c.cluster_id = ended.cluster_id
                AND (c.ad || waiting_job.ad) ->> 'FetchWorkFiles' IN ('sandbox', 'stored')
        )
        AND NOT EXISTS (
            SELECT FROM fetchwork.job_file AS f
            WHERE f.cluster_id = ended.cluster_id
                AND f.proc_id = ended.proc_id
                AND f.direction = 'output'
                AND f.run_id = ended.run_id
        )
    THEN
        RETURN 'late';
    END IF;
    IF fetchwork.dequeue_jobs(ARRAY[ended.cluster_id], ARRAY[ended.proc_id]) = 0
        AND waiting_job.not_before IS NULL
    THEN
        RETURN 'late';
    END IF;

    UPDATE fetchwork.run_history AS h
    SET outcome = 'completed',
        report = finish_late.report,
        late_report = NULL,
        reason = 'reported after it had been given up as lost'
    WHERE h.run_id = ended.run_id AND h.ended_at = ended.ended_at;
    run_s := greatest(0, coalesce(
        fetchwork.number_of(finish_late.report -> 'JobDuration'),
        extract(epoch FROM ended.ended_at - ended.started_at),
        0
    ));
    -- in the form of a live run
    revived := jsonb_populate_record(NULL::fetchwork.run, to_jsonb(ended));
    PERFORM fetchwork.charge_job(ended.cluster_id, ended.proc_id, finish_late.report, run_s);
    -- the job forgot this run when it was lost; the history of a job names its last run
    IF coalesce(finish_late.verdict ->> 'action', 'complete') IN ('complete', 'remove') THEN
        UPDATE fetchwork.job AS j
        SET run_id = ended.run_id
        WHERE j.cluster_id = ended.cluster_id AND j.proc_id = ended.proc_id;
    END IF;
    PERFORM fetchwork.follow_verdict(revived, finish_late.report, finish_late.verdict, run_s);
    RETURN 'completed';
END
$$;
