-- Lets jobs be claimed again after a move to another server (note_move): always, if an administrator knows
-- that no transaction was lost; with if_settled only if every host has reported its runs. Returns whether
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
