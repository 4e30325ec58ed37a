-- Takes back a run that the agent could not hand over (its ad was too large, the hook had gone, its slot is
-- no longer free). With hold_reason the job is Held, because every host would fail alike; without, it waits
-- again. False if the run is over or has started.
CREATE OR REPLACE FUNCTION fetchwork.withdraw(
    run_id bigint,
    token uuid,
    reason text,
    hold_reason text DEFAULT NULL,
    code integer DEFAULT 6
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
BEGIN
    live := fetchwork.known_run(run_id, token);
    IF live.run_id IS NULL OR live.state = 'running' THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.close_run(live, 'withdrawn', withdraw.reason);
    IF withdraw.hold_reason IS NOT NULL AND live.job_status = 1 THEN
        PERFORM fetchwork.hold_jobs(
            ARRAY[live.cluster_id], ARRAY[live.proc_id], withdraw.hold_reason, withdraw.code, 0
        );
    ELSE
        PERFORM fetchwork.back_to_idle(live, NULL);
    END IF;
    RETURN true;
END
$$;
