-- A job's ad as a schedd would show it: what was submitted, and the attributes that the queue keeps.
CREATE OR REPLACE FUNCTION fetchwork.whole_ad(its fetchwork.job)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.ad || (its).ad || jsonb_strip_nulls(jsonb_build_object(
        'ClusterId', (its).cluster_id, 'ProcId', (its).proc_id, 'JobStatus', (its).job_status, 'Owner', (its).owner, 'JobPrio', (its).job_prio,
        'QDate', extract(epoch FROM (its).q_date)::bigint, 'EnteredCurrentStatus', extract(epoch FROM (its).status_at)::bigint,
        'JobStartDate', extract(epoch FROM (its).first_start_at)::bigint,
        'JobCurrentStartDate', extract(epoch FROM (its).last_start_at)::bigint,
        'NumJobStarts', (its).num_starts, 'JobRunCount', (its).num_starts, 'NumJobCompletions', (its).num_completions, 'NumHolds', (its).num_holds,
        'RemoteWallClockTime', (its).wall_s, 'RemoteUserCpu', (its).user_cpu_s, 'RemoteSysCpu', (its).sys_cpu_s,
        'HoldReason', (its).hold_reason, 'HoldReasonCode', (its).hold_code, 'HoldReasonSubCode', (its).hold_subcode))
    FROM fetchwork.cluster AS c
    WHERE c.cluster_id = (its).cluster_id;
END;
