-- All that a TERMINATED event says of a run whose job has exited by itself. resources: requested_resources of
-- it. The job may have had other runs before: how many starts it had, and what CPU time all of them took.
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
