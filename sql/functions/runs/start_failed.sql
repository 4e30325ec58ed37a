-- The job can't start for a reason that HTCondor's shadow would hold it for, with its code and subcode: what
-- the starter wrote down of it, or what PREPARE_JOB found as the job's user. The job is Held at once, or
-- withdrawn where its end was asked for. False if the run is over already.
--
-- Who says so may be the job's user, who can forge what a starter writes: it is believed of that job alone.
CREATE OR REPLACE FUNCTION fetchwork.start_failed(
    run_id bigint,
    token uuid,
    reason text,
    code integer,
    subcode integer
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
    IF live.run_id IS NULL THEN
        RETURN false;
    END IF;
    IF live.end_requested IS NOT NULL THEN
        PERFORM fetchwork.finish_not_run(live, '{}');
        RETURN true;
    END IF;
    PERFORM fetchwork.could_not_start(
        live, start_failed.reason, start_failed.code, NULL, start_failed.subcode, at_once => true
    );
    RETURN true;
END
$$;
