-- Removes one job, for remove() and for policy. The caller has locked the job's row and passes it as it is now.
CREATE OR REPLACE FUNCTION fetchwork.remove_job(its fetchwork.job, reason text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.dequeue(its);
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    VALUES (9, its.cluster_id, its.proc_id, jsonb_build_object('Reason', remove_job.reason));
    IF fetchwork.end_live_run(its.cluster_id, its.proc_id, 'remove', remove_job.reason) THEN
        UPDATE fetchwork.job AS j
        SET job_status = 3, status_at = clock_timestamp(), last_reason = remove_job.reason, hold_reason = NULL, hold_code = NULL, hold_subcode = NULL, not_before = NULL
        WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;
        IF its.job_status = 5 THEN
            INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held) VALUES (its.autocluster_id, its.batch_id, -1);
        END IF;
    ELSE
        PERFORM fetchwork.retire_job(its.cluster_id, its.proc_id, 3::smallint, remove_job.reason);
    END IF;
END
$$;
