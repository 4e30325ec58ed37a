-- The attributes of a TERMINATED event for a run whose job has exited by itself. resources:
-- requested_resources of the run; starts and CPU times: those of all runs of the job.
CREATE OR REPLACE FUNCTION fetchwork.completion(
    resources jsonb,
    starts integer,
    user_cpu_s double precision,
    sys_cpu_s double precision,
    report jsonb,
    run_s double precision
)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN coalesce(resources, '{}')
    || fetchwork.termination(report, run_s)
    || CASE
        WHEN starts > 1
            THEN jsonb_build_object('TotalUserCpu', user_cpu_s, 'TotalSysCpu', sys_cpu_s)
        ELSE '{}'
    END;
