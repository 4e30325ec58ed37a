-- For an administrator: ends the identity of a host. Each function refuses it from this commit on; its runs
-- end as those of a host that fell silent, and their jobs wait again. Its copies of credentials
-- are deleted, and none are sealed to its key any more. Returns no row if the host never joined; otherwise
-- the invitation by which it came, whether other hosts may still join by it (uninvite), and how many of its
-- sessions go on because the owner of the schema may not end them. Errors: FWDEN.
CREATE OR REPLACE FUNCTION fetchwork.revoke_host(host text)
RETURNS TABLE (invitation integer, open boolean, sessions integer)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    its_role name;
    its_id integer;
BEGIN
    PERFORM fetchwork.require_admin();
    UPDATE fetchwork.host_identity AS i
    SET revoked_at = coalesce(i.revoked_at, clock_timestamp()),
        credential_key = NULL
    FROM fetchwork.host AS h
    WHERE h.host_id = i.host_id AND h.name = revoke_host.host
    RETURNING i.role, i.invitation, i.host_id INTO its_role, revoke_host.invitation, its_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM fetchwork.host_credential AS c
    WHERE c.host_id = its_id;
    PERFORM fetchwork.note_action('revoke_host', NULL, NULL, revoke_host.host, NULL);
    sessions := fetchwork.end_login(its_role);
    SELECT v.ended_at IS NULL AND v.valid_until > clock_timestamp() AND v.used < v.uses
    INTO revoke_host.open
    FROM fetchwork.invitation AS v
    WHERE v.number = revoke_host.invitation;
    RETURN NEXT;
END
$$;
