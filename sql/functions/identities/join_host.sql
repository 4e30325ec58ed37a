-- Lets a host in: its caller has logged in by an invitation, and gets an identity for this host alone, a role
-- with the given SCRAM verifier. By an invitation for accounts it is an access point, and named as in
-- claim_scheduler_job. A repeated call with the same verifier gets the same answer, because the first one may
-- have been lost.
-- A name that an agent or a valid identity has is given away only by an invitation for this very name, which
-- an administrator makes for a host that was set up anew; so is the name of a revoked host. Its earlier
-- identity ends then.
-- Errors: FWDEN (the invitation has ended, is used up, or is for other names), FWTWO (the name is taken),
-- FWINV. Locks: the invitation, so that its last use is one.
CREATE OR REPLACE FUNCTION fetchwork.join_host(host text, verifier text)
RETURNS TABLE (host_id integer, role name, generation integer, valid_until timestamptz)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    invited fetchwork.invitation;
    before fetchwork.host_identity;
    known fetchwork.host;
    digest bytea := sha256(convert_to(join_host.verifier, 'UTF8'));
    its_name text;
BEGIN
    SELECT v.*
    INTO invited
    FROM fetchwork.invitation AS v
    WHERE v.role = session_user
    FOR UPDATE;
    IF NOT FOUND OR invited.ended_at IS NOT NULL OR invited.valid_until < clock_timestamp() THEN
        RAISE EXCEPTION 'the invitation has ended; an administrator makes another (`fetchwork host invite`)'
            USING ERRCODE = 'FWDEN';
    END IF;
    PERFORM fetchwork.require_verifier(join_host.verifier);
    its_name := CASE WHEN invited.owners IS NULL THEN '' ELSE 'access point ' END || join_host.host;
    RETURN QUERY
    SELECT i.host_id, i.role, i.generation, i.valid_until
    FROM fetchwork.host_identity AS i
    JOIN fetchwork.host AS h ON h.host_id = i.host_id
    WHERE i.invitation = invited.number
        AND i.verifier = digest
        AND h.name = its_name
        AND i.revoked_at IS NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    IF invited.used >= invited.uses THEN
        RAISE EXCEPTION 'the invitation has been used by % hosts, which is all of them', invited.used
            USING ERRCODE = 'FWDEN';
    END IF;
    IF coalesce(join_host.host, '') !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}$' THEN
        RAISE EXCEPTION '% is not a host name; allowed: letters, digits, _ . -',
            quote_nullable(left(join_host.host, 80)) USING ERRCODE = 'FWINV';
    END IF;
    IF lower(join_host.host) NOT LIKE translate(replace(lower(invited.hosts), '_', '\_'), '*?', '%_') THEN
        RAISE EXCEPTION 'the invitation is not for host %; allowed: %',
            quote_literal(join_host.host), invited.hosts USING ERRCODE = 'FWDEN';
    END IF;
    INSERT INTO fetchwork.host AS h (name, access_point)
    VALUES (its_name, invited.owners IS NOT NULL)
    ON CONFLICT (name) DO UPDATE SET name = h.name
    RETURNING h.* INTO known;
    SELECT i.*
    INTO before
    FROM fetchwork.host_identity AS i
    WHERE i.host_id = known.host_id
    FOR UPDATE;
    IF lower(invited.hosts) <> lower(join_host.host)
        AND (
            known.lease_until > clock_timestamp()
            OR before.revoked_at IS NOT NULL
            OR before.valid_until > clock_timestamp()
        )
    THEN
        RAISE EXCEPTION 'host % is taken, or was revoked; an administrator invites it by its name '
            '(`fetchwork host invite --name %`)',
            its_name, join_host.host USING ERRCODE = 'FWTWO';
    END IF;
    IF before.host_id IS NOT NULL THEN
        DELETE FROM fetchwork.host_identity AS i
        WHERE i.host_id = before.host_id;
        PERFORM fetchwork.end_login(before.role);
    END IF;
    UPDATE fetchwork.invitation AS v
    SET used = v.used + 1
    WHERE v.number = invited.number;
    host_id := known.host_id;
    generation := 1;
    valid_until := clock_timestamp() + fetchwork.setting_time('host_identity');
    SELECT m.role
    INTO join_host.role
    FROM fetchwork.make_login(
        CASE WHEN invited.owners IS NULL THEN 'fetchwork_host' ELSE 'fetchwork_joined_point' END,
        join_host.verifier, valid_until
    ) AS m;
    INSERT INTO fetchwork.host_identity (host_id, role, invitation, verifier, valid_until)
    VALUES (host_id, role, invited.number, digest, valid_until);
    RETURN NEXT;
END
$$;
