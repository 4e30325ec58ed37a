-- What an administrator calls after a restore that can't be noticed (server_identity), or before any agent is
-- there to notice one: nothing is claimed before the hosts have said what they run (note_move), ids are
-- skipped (skip_ids), and the events to come are put behind every reader's cursor (put_events_behind).
-- Repeating it is harmless.
--
-- Locks: the row of heartbeat.
CREATE OR REPLACE FUNCTION fetchwork.after_restore()
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.note_move(forced => true);
    PERFORM fetchwork.put_events_behind();
END
$$;
