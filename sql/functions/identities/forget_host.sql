-- For an administrator: deletes a host that is gone, with its identity and its slots; its ended runs keep its
-- name in the history. The name is free again, also that of a revoked host. False if there is no such host.
-- Errors: FWDEN, FWTWO (its agent has a live lease, it has live runs, or it is an access point whose identity
-- is valid, or which shares a role). Locks: the host.
CREATE OR REPLACE FUNCTION fetchwork.forget_host(host text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    gone fetchwork.host;
    its_role name;
BEGIN
    PERFORM fetchwork.require_admin();
    SELECT h.*
    INTO gone
    FROM fetchwork.host AS h
    WHERE h.name = forget_host.host
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF gone.lease_until > clock_timestamp()
        OR (gone.access_point AND coalesce(
            (
                SELECT i.revoked_at IS NULL AND i.valid_until > clock_timestamp()
                FROM fetchwork.host_identity AS i
                WHERE i.host_id = gone.host_id
            ), true
        ))
        OR EXISTS (SELECT FROM fetchwork.run AS r WHERE r.host_id = gone.host_id)
    THEN
        RAISE EXCEPTION 'host % has a live agent or live runs, or is a valid access point; revoke it '
            'first (`fetchwork host revoke`), and wait for the end of its lease',
            quote_literal(gone.name) USING ERRCODE = 'FWTWO';
    END IF;
    SELECT i.role
    INTO its_role
    FROM fetchwork.host_identity AS i
    WHERE i.host_id = gone.host_id;
    DELETE FROM fetchwork.host AS h
    WHERE h.host_id = gone.host_id;
    PERFORM fetchwork.end_login(its_role);
    PERFORM fetchwork.note_action('forget_host', NULL, NULL, gone.name, NULL);
    RETURN true;
END
$$;
