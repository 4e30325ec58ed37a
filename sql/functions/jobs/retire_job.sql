-- Ends a job: its row moves to job_history as Completed (4) or Removed (3); a Completed job whose
-- leave_in_queue (LeaveJobInQueue) is not false stays in the queue until leave_queue. The job has no live
-- run. The caller has locked the job and writes the event.
CREATE OR REPLACE FUNCTION fetchwork.retire_job(
    cluster integer,
    proc integer,
    status smallint,
    reason text,
    report jsonb DEFAULT NULL,
    slot text DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    job fetchwork.job;
BEGIN
    IF status = 4 AND fetchwork.stays(cluster, proc) THEN
        UPDATE fetchwork.job AS j
        SET job_status = 4,
            status_at = clock_timestamp(),
            run_id = NULL,
            not_before = NULL,
            hold_reason = NULL,
            hold_code = NULL,
            hold_subcode = NULL,
            last_reason = coalesce(retire_job.reason, j.last_reason),
            facts = j.facts || jsonb_strip_nulls(jsonb_build_object(
                'LastJobStatus', j.job_status,
                'CompletionDate', extract(epoch FROM clock_timestamp())::bigint,
                'ExitBySignal', (retire_job.report -> 'ExitBySignal' = 'true') IS TRUE,
                'ExitCode', fetchwork.integer_of(retire_job.report -> 'ExitCode'),
                'ExitSignal', fetchwork.integer_of(retire_job.report -> 'ExitSignal'),
                'ExitStatus', coalesce(fetchwork.integer_of(retire_job.report -> 'ExitCode'), 0),
                'LastRemoteHost', retire_job.slot,
                -- job_history has a column for it
                'RunId', j.run_id
            ))
        WHERE j.cluster_id = cluster AND j.proc_id = proc
        RETURNING j.* INTO job;
        -- it counts as over, except for max_jobs_per_owner: agents evaluate its policy until it leaves
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, completed)
        VALUES (job.autocluster_id, job.batch_id, -1, 1);
        RETURN;
    END IF;
    DELETE FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id = proc
    RETURNING j.* INTO job;
    INSERT INTO fetchwork.job_history
    SELECT e.*
    FROM fetchwork.ended_job(
        job, status, clock_timestamp(), job.run_id, retire_job.report, retire_job.slot, retire_job.reason,
        CASE
            WHEN job.job_status = status THEN job.facts
            ELSE job.facts || jsonb_build_object('LastJobStatus', job.job_status)
        END
    ) AS e;
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held, completed, removed, owner)
    VALUES (
        job.autocluster_id, job.batch_id, -1,
        CASE WHEN job.job_status = 5 THEN -1 ELSE 0 END,
        CASE WHEN status = 4 THEN 1 ELSE 0 END,
        CASE WHEN status = 3 THEN 1 ELSE 0 END,
        job.owner
    );
    PERFORM fetchwork.note_files_over(ARRAY[cluster], ARRAY[proc]);
    PERFORM fetchwork.materialize_after(ARRAY[cluster], ARRAY[proc], true);
    IF status = 3 THEN
        PERFORM fetchwork.remove_others(ARRAY[cluster], retire_job.reason);
    END IF;
END
$$;
