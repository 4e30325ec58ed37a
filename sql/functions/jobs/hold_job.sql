-- One job goes to Held, with HTCondor's hold code; a HELD event (012). The caller has locked the job, and
-- ends its run or asks for that.
CREATE OR REPLACE FUNCTION fetchwork.hold_job(
    cluster integer,
    proc integer,
    reason text,
    code integer,
    subcode integer
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := fetchwork.hold_name(hold_job.code);
BEGIN
    UPDATE fetchwork.job AS j
    SET job_status = 5,
        status_at = clock_timestamp(),
        not_before = NULL,
        hold_reason = hold_job.reason,
        hold_code = hold_job.code,
        hold_subcode = hold_job.subcode,
        num_holds = j.num_holds + 1,
        facts = j.facts || jsonb_build_object(
            'LastJobStatus', j.job_status,
            'NumHoldsByReason', coalesce(j.facts -> 'NumHoldsByReason', '{}') || jsonb_build_object(
                name, coalesce((j.facts #>> ARRAY['NumHoldsByReason', name])::integer, 0) + 1
            )
        )
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
    PERFORM fetchwork.forget_bringing(ARRAY[cluster], ARRAY[proc]);
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held)
    SELECT j.autocluster_id, j.batch_id, 1
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    VALUES (12, cluster, proc, jsonb_build_object(
        'HoldReason', hold_job.reason,
        'HoldReasonCode', hold_job.code,
        'HoldReasonSubCode', hold_job.subcode
    ));
END
$$;
