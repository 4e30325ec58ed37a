-- A job's ad as a schedd shows it: the submitted attributes, and those that the queue keeps.
CREATE OR REPLACE FUNCTION fetchwork.whole_ad(job fetchwork.job)
RETURNS jsonb
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT c.ad || (job).ad || jsonb_strip_nulls(jsonb_build_object(
        'ClusterId', (job).cluster_id,
        'ProcId', (job).proc_id,
        'JobStatus', (job).job_status,
        'Owner', (job).owner,
        'JobPrio', (job).job_prio,
        'QDate', extract(epoch FROM (job).q_date)::bigint,
        'EnteredCurrentStatus', extract(epoch FROM (job).status_at)::bigint,
        'JobStartDate', extract(epoch FROM (job).first_start_at)::bigint,
        'JobCurrentStartDate', extract(epoch FROM (job).last_start_at)::bigint,
        'NumJobStarts', (job).num_starts,
        'JobRunCount', (job).num_starts,
        'NumJobCompletions', (job).num_completions,
        'NumHolds', (job).num_holds,
        'RemoteWallClockTime', (job).wall_s,
        'RemoteUserCpu', (job).user_cpu_s,
        'RemoteSysCpu', (job).sys_cpu_s,
        'HoldReason', (job).hold_reason,
        'HoldReasonCode', (job).hold_code,
        'HoldReasonSubCode', (job).hold_subcode
    ))
    -- attributes that LeaveJobInQueue may read after the job's end
    || CASE (job).job_status WHEN 4 THEN (job).facts ELSE '{}' END
    FROM fetchwork.cluster AS c
    WHERE c.cluster_id = (job).cluster_id;
END;
