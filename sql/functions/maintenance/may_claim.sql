-- May jobs be claimed? Not after a move to another server, before it is known what runs
-- (functions/maintenance/note_move.sql); the first claim there may come before anybody has noticed the move.
--
-- Every claim asks: in plpgsql a session plans it once.
CREATE OR REPLACE FUNCTION fetchwork.may_claim()
RETURNS boolean
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM fetchwork.heartbeat AS b
        WHERE b.offers_wait OR b.server <> fetchwork.server_identity()
    );
END
$$;
