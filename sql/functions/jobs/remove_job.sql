-- Removes one job, for remove() and for policy. The caller has locked the job's row and passes it as it is
-- now.
CREATE OR REPLACE FUNCTION fetchwork.remove_job(job fetchwork.job, reason text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.dequeue(job);
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    VALUES (9, job.cluster_id, job.proc_id, jsonb_build_object('Reason', remove_job.reason));
    IF fetchwork.end_live_run(job.cluster_id, job.proc_id, 'remove', remove_job.reason) THEN
        UPDATE fetchwork.job AS j
        SET job_status = 3,
            status_at = clock_timestamp(),
            last_reason = remove_job.reason,
            facts = j.facts || jsonb_build_object('LastJobStatus', j.job_status),
            hold_reason = NULL,
            hold_code = NULL,
            hold_subcode = NULL,
            not_before = NULL
        WHERE j.cluster_id = job.cluster_id AND j.proc_id = job.proc_id;
        IF job.job_status = 5 THEN
            INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held)
            VALUES (job.autocluster_id, job.batch_id, -1);
        END IF;
    ELSE
        PERFORM fetchwork.retire_job(job.cluster_id, job.proc_id, 3::smallint, remove_job.reason);
    END IF;
END
$$;
