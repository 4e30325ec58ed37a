-- Holds (12) a job whose access point could not write its outputs to their destination, with errno as
-- subcode, as a schedd does. The outputs stay for another way of delivery (setting output_days); a released
-- job runs again. False if no job of an Owner that the caller may name waited for that (any more).
-- Events: HELD (012). Locks: the job.
CREATE OR REPLACE FUNCTION fetchwork.not_brought(
    cluster integer,
    proc integer,
    run_id bigint,
    reason text,
    errno integer
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    PERFORM FROM fetchwork.job AS j
    WHERE j.cluster_id = not_brought.cluster
        AND j.proc_id = not_brought.proc
        AND (fetchwork.is_admin(role) OR j.owner = ANY (fetchwork.own_owners(role)))
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM fetchwork.bringing AS b
    WHERE b.cluster_id = not_brought.cluster
        AND b.proc_id = not_brought.proc
        AND b.run_id = not_brought.run_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.hold_jobs(
        ARRAY[not_brought.cluster], ARRAY[not_brought.proc], left(not_brought.reason, 1000), 12,
        not_brought.errno
    );
    RETURN true;
END
$$;
