-- For an administrator: the host is well again, so it is no longer a black hole, and its slots are offered
-- again what they refused. False if there is no such host. Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.clear_host(host text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    cleared integer;
BEGIN
    PERFORM fetchwork.require_admin();
    UPDATE fetchwork.host AS h
    SET bad_starts = 0, bad_since = NULL, bad_reason = NULL, black_hole_since = NULL
    WHERE h.name = clear_host.host
    RETURNING h.host_id INTO cleared;
    DELETE FROM fetchwork.failing_owner AS f
    WHERE f.host_id = cleared;
    DELETE FROM fetchwork.slot_rest AS r
    WHERE r.host_id = cleared;
    PERFORM fetchwork.notify_agents();
    RETURN cleared IS NOT NULL;
END
$$;
