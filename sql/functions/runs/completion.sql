-- All that a TERMINATED event says of a run whose job has exited by itself. The job may have had other runs
-- before: how many starts it had, and what CPU time all of them took.
CREATE OR REPLACE FUNCTION fetchwork.completion(
    exited fetchwork.run,
    starts integer,
    user_cpu_s double precision,
    sys_cpu_s double precision,
    report jsonb,
    run_s double precision
)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
RETURN coalesce(fetchwork.requested_resources(exited, report, run_s), '{}')
    || fetchwork.termination(report, run_s)
    || CASE
        WHEN starts > 1
            THEN jsonb_build_object('TotalUserCpu', user_cpu_s, 'TotalSysCpu', sys_cpu_s)
        ELSE '{}'
    END;
