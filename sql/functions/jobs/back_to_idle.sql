-- What becomes of a job whose run has just been closed without an end of the job itself: Idle and waiting
-- again, unless it was Held or Removed while the run lived. The caller has locked the job.
CREATE OR REPLACE FUNCTION fetchwork.back_to_idle(live fetchwork.run, reason text, delay interval DEFAULT '0')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    status smallint;
BEGIN
    SELECT j.job_status
    INTO status
    FROM fetchwork.job AS j
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    IF status = 3 THEN
        PERFORM fetchwork.retire_job(live.cluster_id, live.proc_id, 3::smallint, live.end_reason);
    ELSIF status = 5 THEN
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
