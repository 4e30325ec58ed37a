-- Makes a job that has exited by itself wait until its access point has delivered its outputs, as a schedd's
-- job waits for its shadow: TransferringOutput (6) until brought() or not_brought(), or until the setting
-- bring_wait has passed (give_up_bringing). Returns false if there is nothing to wait for.
-- The caller has locked the job and closed the run.
CREATE OR REPLACE FUNCTION fetchwork.await_files(
    exited fetchwork.run,
    verdict jsonb,
    run_s double precision
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    brings text := fetchwork.leaves_for_access_point(exited.run_id, exited.cluster_id, exited.proc_id);
BEGIN
    IF brings IS NULL THEN
        RETURN false;
    END IF;
    UPDATE fetchwork.job AS j
    SET job_status = 6,
        run_id = NULL,
        -- an earlier vacate may have set a time for the next try
        not_before = NULL,
        status_at = clock_timestamp(),
        facts = j.facts || jsonb_build_object('LastJobStatus', j.job_status)
    WHERE j.cluster_id = exited.cluster_id AND j.proc_id = exited.proc_id;
    INSERT INTO fetchwork.bringing (cluster_id, proc_id, access_point, owner, run_id, verdict, run_s)
    SELECT
        j.cluster_id, j.proc_id, brings, j.owner, exited.run_id, await_files.verdict, await_files.run_s
    FROM fetchwork.job AS j
    WHERE j.cluster_id = exited.cluster_id AND j.proc_id = exited.proc_id;
    RETURN true;
END
$$;
