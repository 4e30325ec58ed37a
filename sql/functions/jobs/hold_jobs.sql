-- Holds jobs, for hold() and for policy: takes them out of the queue and requests the end of their runs.
-- Events: HELD (012) for jobs without a started run; for the others it comes at the run's end, behind EVICTED
-- (back_to_idle), as in HTCondor. The caller has locked the jobs, of which none is Held or Removed.
CREATE OR REPLACE FUNCTION fetchwork.hold_jobs(
    clusters integer [],
    procs integer [],
    reason text,
    code integer,
    subcode integer
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    name text := fetchwork.hold_name(hold_jobs.code);
    ctids tid[];
BEGIN
    PERFORM fetchwork.dequeue_jobs(clusters, procs);
    PERFORM fetchwork.forget_bringing(clusters, procs);
    ctids := fetchwork.job_rows(clusters, procs);
    WITH held AS (
        UPDATE fetchwork.job AS j
        SET job_status = 5,
            status_at = clock_timestamp(),
            not_before = NULL,
            -- of a run that goes on; the caller may have closed the last one
            run_id = (
                SELECT r.run_id
                FROM fetchwork.run AS r
                WHERE r.cluster_id = j.cluster_id AND r.proc_id = j.proc_id AND r.state = 'running'
            ),
            hold_reason = hold_jobs.reason,
            hold_code = hold_jobs.code,
            hold_subcode = hold_jobs.subcode,
            num_holds = j.num_holds + 1,
            facts = j.facts || jsonb_build_object(
                'LastJobStatus', j.job_status,
                'NumHoldsByReason', coalesce(j.facts -> 'NumHoldsByReason', '{}') || jsonb_build_object(
                    name, coalesce((j.facts #>> ARRAY['NumHoldsByReason', name])::integer, 0) + 1
                )
            )
        WHERE j.ctid = ANY (ctids)
        RETURNING j.autocluster_id, j.batch_id
    )
    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held)
    SELECT h.autocluster_id, h.batch_id, count(*)
    FROM held AS h
    GROUP BY h.autocluster_id, h.batch_id;
    PERFORM fetchwork.end_live_runs(clusters, procs, 'hold', hold_jobs.reason);
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT
        12, k.cluster_id, k.proc_id,
        jsonb_build_object(
            'HoldReason', hold_jobs.reason,
            'HoldReasonCode', hold_jobs.code,
            'HoldReasonSubCode', hold_jobs.subcode
        )
    FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
    -- not an EXISTS, which becomes a join (job_of)
    WHERE (
        SELECT r.run_id
        FROM fetchwork.run AS r
        WHERE r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
    ) IS NULL;
END
$$;
