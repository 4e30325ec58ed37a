-- For an administrator: ends an invitation; the hosts that joined by it stay. False if there is no such
-- invitation, or it has ended. Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.uninvite(number integer)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    its_role name;
BEGIN
    PERFORM fetchwork.require_admin();
    UPDATE fetchwork.invitation AS v
    SET ended_at = clock_timestamp()
    WHERE v.number = uninvite.number AND v.ended_at IS NULL
    RETURNING v.role INTO its_role;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.note_action('uninvite', NULL, NULL, uninvite.number::text, NULL);
    PERFORM fetchwork.end_login(its_role);
    RETURN true;
END
$$;
