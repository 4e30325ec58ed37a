-- REPLY_FETCH said accept. No starter exists yet, and the offer keeps its deadline. True if the run is live.
-- Harmless when repeated or late: the order of this call and of the starter's first hooks is not defined.
CREATE OR REPLACE FUNCTION fetchwork.accept(run_id bigint, token uuid)
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
    UPDATE fetchwork.run AS r
    SET accepted_at = coalesce(r.accepted_at, clock_timestamp()),
        contact_at = clock_timestamp(),
        state = CASE r.state WHEN 'reserved' THEN 'accepted' ELSE r.state END::fetchwork.run_state
    WHERE r.run_id = live.run_id;
    RETURN true;
END
$$;
