-- Lets jobs be claimed again after a move to another server (note_move): always, where an administrator knows
-- that no transaction was lost; "if_settled": only if every host has said what runs on it. Returns whether
-- claims waited and now go on.
CREATE OR REPLACE FUNCTION fetchwork.resume_offers(if_settled boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    RETURN fetchwork.go_on_offering(if_settled);
END
$$;
