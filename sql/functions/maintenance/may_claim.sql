-- Whether jobs may be claimed: not after a move to another server or a restore, before the running jobs are
-- known (functions/maintenance/note_move.sql). The first claim there may come before an agent has noticed it.
CREATE OR REPLACE FUNCTION fetchwork.may_claim()
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM fetchwork.heartbeat AS b
        WHERE b.offers_wait
            OR (NOT fetchwork.is_same_server() AND b.server <> fetchwork.server_identity())
    );
END
$$;
