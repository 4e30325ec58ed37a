-- May jobs be claimed? Not after a move to another server, before it is known what runs
-- (functions/maintenance/note_move.sql); the first claim there may come before anybody has noticed the move.
CREATE OR REPLACE FUNCTION fetchwork.may_claim()
RETURNS boolean
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
RETURN NOT EXISTS (
    SELECT FROM fetchwork.heartbeat AS b
    WHERE b.offers_wait OR b.server <> fetchwork.server_identity()
);
