-- An agent stops in good order: its host gives up its lease, so it can't expire; its runs keep their own
-- deadlines.
CREATE OR REPLACE FUNCTION fetchwork.goodbye(host_id integer, agent_id uuid)
RETURNS void
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(goodbye.host_id);
    UPDATE fetchwork.host AS h
    SET lease_until = NULL, seen_at = clock_timestamp()
    WHERE h.host_id = goodbye.host_id AND h.agent_id = goodbye.agent_id;
END;
