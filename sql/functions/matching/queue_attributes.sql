-- The attributes that the queue knows of a waiting job, for expressions that refer to them (Requirements).
-- JobStatus is Idle, because only an Idle job is matched.
CREATE OR REPLACE FUNCTION fetchwork.queue_attributes(job fetchwork.job)
RETURNS jsonb
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT fetchwork.default_attributes()
        || jsonb_build_object(
            'User', job.owner || '@' || current_database(),
            'ClusterId', job.cluster_id,
            'ProcId', job.proc_id,
            'GlobalJobId', fetchwork.global_job_id(job.cluster_id, job.proc_id, job.q_date),
            'JobStatus', 1,
            'ScheddInterval', fetchwork.setting_value('schedd_interval')::integer,
            'QDate', extract(epoch FROM job.q_date)::bigint,
            'EnteredCurrentStatus', extract(epoch FROM job.status_at)::bigint,
            'NumJobStarts', job.num_starts,
            'NumRestarts', greatest(job.num_starts - 1, 0),
            'NumJobCompletions', job.num_completions,
            'NumHolds', job.num_holds,
            'RemoteWallClockTime', job.wall_s,
            'CumulativeSlotTime', job.wall_s,
            'RemoteUserCpu', job.user_cpu_s,
            'RemoteSysCpu', job.sys_cpu_s,
            'CumulativeRemoteUserCpu', job.user_cpu_s,
            'CumulativeRemoteSysCpu', job.sys_cpu_s
        )
        || jsonb_strip_nulls(jsonb_build_object(
            'TotalSubmitProcs', (
                SELECT c.procs
                FROM fetchwork.cluster AS c
                WHERE c.cluster_id = job.cluster_id
            ),
            'JobStartDate', extract(epoch FROM job.first_start_at)::bigint,
            'JobCurrentStartDate', extract(epoch FROM job.last_start_at)::bigint,
            'JobRunCount', nullif(job.num_starts, 0),
            'NumShadowStarts', nullif(job.num_starts, 0),
            'NumJobMatches', nullif(job.num_starts, 0)
        ))
        || job.facts;
END;
