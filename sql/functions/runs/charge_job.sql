-- Adds a run's time to its job's totals: run_s of wall-clock time, and the CPU seconds of JOB_EXIT's report.
-- Resets the count of failed starts, since the job ran. The caller has locked the job.
CREATE OR REPLACE FUNCTION fetchwork.charge_job(
    cluster integer,
    proc integer,
    report jsonb,
    run_s double precision
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE fetchwork.job AS j
    SET wall_s = j.wall_s + run_s,
        user_cpu_s = j.user_cpu_s + coalesce(fetchwork.number_of(report -> 'RemoteUserCpu'), 0),
        sys_cpu_s = j.sys_cpu_s + coalesce(fetchwork.number_of(report -> 'RemoteSysCpu'), 0),
        num_not_started = 0
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
END
$$;
