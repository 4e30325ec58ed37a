-- For an administrator: lets a host in again whose identity is over or was copied: its present password holds
-- for another term, and its next renewal counts under any number. A revoked host needs an invitation
-- by its name. False if there is no such identity. Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.admit_host(host text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own fetchwork.host_identity;
BEGIN
    PERFORM fetchwork.require_admin();
    UPDATE fetchwork.host_identity AS i
    SET copied_at = NULL,
        readmitted = i.readmitted OR i.copied_at IS NOT NULL,
        valid_until = clock_timestamp() + fetchwork.setting_time('host_identity')
    FROM fetchwork.host AS h
    WHERE h.host_id = i.host_id AND h.name = admit_host.host AND i.revoked_at IS NULL
    RETURNING i.* INTO own;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.note_action('admit_host', NULL, NULL, admit_host.host, NULL);
    EXECUTE format('ALTER ROLE %I VALID UNTIL %L', own.role, own.valid_until);
    RETURN true;
END
$$;
