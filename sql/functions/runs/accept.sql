-- REPLY_FETCH said accept. No starter exists yet, and the offer keeps its deadline. True if the run is live.
-- Harmless when repeated or late: the order of this call and of the starter's first hooks is not defined.
CREATE OR REPLACE FUNCTION fetchwork.accept(run_id bigint, token uuid)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (fetchwork.known_run(run_id, token)).run_id IS NULL THEN
        RETURN false;
    END IF;
    -- its row is locked, so accept_runs does not skip it
    PERFORM fetchwork.accept_runs(ARRAY[accept.run_id], ARRAY[accept.token], ARRAY[0]);
    RETURN true;
END
$$;
