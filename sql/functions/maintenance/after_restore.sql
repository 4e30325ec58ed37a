-- For an administrator, after a restore that can't be noticed (server_identity) or that no agent is there to
-- notice: no job is claimed before the hosts have reported their runs (note_move), ids are skipped
-- (skip_ids), and coming events are put behind every reader's cursor (put_events_behind). Repeating a call is
-- harmless. Locks: the row of heartbeat.
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
