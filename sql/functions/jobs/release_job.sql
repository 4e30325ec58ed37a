-- Releases one held job, for release() and for policy; a RELEASED event (013). A job whose run was asked to
-- end and has not yet is Running in name until that run's end brings it back to the queue. The caller has
-- locked the job's row and passes it as it is now.
CREATE OR REPLACE FUNCTION fetchwork.release_job(job fetchwork.job, reason text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    run_lives boolean;
BEGIN
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held)
    VALUES (job.autocluster_id, job.batch_id, -1);
    UPDATE fetchwork.run AS r
    SET end_requested = 'vacate', job_status = 2
    WHERE r.cluster_id = job.cluster_id AND r.proc_id = job.proc_id;
    run_lives := FOUND;
    -- RunEnding: so that a reader of the events knows that an EVICTED will come
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    VALUES (
        13, job.cluster_id, job.proc_id,
        jsonb_build_object('Reason', release_job.reason)
            || CASE WHEN run_lives THEN '{"RunEnding": true}' ELSE '{}' END::jsonb
    );
    UPDATE fetchwork.job AS j
    SET job_status = CASE WHEN run_lives THEN 2 ELSE 1 END,
        status_at = clock_timestamp(),
        hold_reason = NULL,
        hold_code = NULL,
        hold_subcode = NULL,
        facts = j.facts || jsonb_build_object(
            'LastJobStatus', 5,
            'LastHoldReason', j.hold_reason,
            'LastHoldReasonCode', j.hold_code,
            'LastHoldReasonSubCode', coalesce(j.hold_subcode, 0),
            'ReleaseReason', coalesce(release_job.reason, '')
        ),
        num_not_started = 0,
        num_lost = 0
    WHERE j.cluster_id = job.cluster_id AND j.proc_id = job.proc_id;
    IF NOT run_lives THEN
        PERFORM fetchwork.enqueue(job.cluster_id, job.proc_id);
    END IF;
END
$$;
