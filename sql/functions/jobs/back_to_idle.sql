-- Decides about a job whose run was just closed without an end of the job: it is Idle and waits again. If it
-- was Held or Removed while the run lived, the event of that comes now, HELD (012) or ABORTED (009). The
-- caller has locked the job, and has written the run's EVICTED.
CREATE OR REPLACE FUNCTION fetchwork.back_to_idle(live fetchwork.run, reason text, delay interval DEFAULT '0')
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    job fetchwork.job;
BEGIN
    SELECT j.*
    INTO job
    FROM fetchwork.job AS j
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    IF job.job_status = 3 THEN
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
        VALUES (9, live.cluster_id, live.proc_id, jsonb_build_object('Reason', live.end_reason));
        PERFORM fetchwork.retire_job(live.cluster_id, live.proc_id, 3::smallint, live.end_reason);
    ELSIF job.job_status = 5 THEN
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
        VALUES (12, live.cluster_id, live.proc_id, jsonb_build_object(
            'HoldReason', job.hold_reason,
            'HoldReasonCode', job.hold_code,
            'HoldReasonSubCode', job.hold_subcode
        ));
        UPDATE fetchwork.job AS j
        SET run_id = NULL
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    ELSE
        UPDATE fetchwork.job AS j
        SET job_status = 1,
            run_id = NULL,
            status_at = CASE WHEN j.job_status = 1 THEN j.status_at ELSE clock_timestamp() END,
            last_reason = coalesce(back_to_idle.reason, j.last_reason),
            facts = CASE
                WHEN j.job_status = 1 THEN j.facts
                ELSE j.facts || jsonb_build_object('LastJobStatus', j.job_status)
            END
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
        PERFORM fetchwork.enqueue(live.cluster_id, live.proc_id, delay);
    END IF;
END
$$;
