-- For maintain_tables: ends the logins of invitations that are over, and of identities that were revoked or
-- are over for 30 days, forgets ephemeral hosts that were silent for an hour and tokens of people that ended
-- 30 days ago, and drops login roles of this database that no row names: their host was forgotten, or they
-- could not be dropped before. At most 500 hosts and 500 roles at a time, because each drop holds locks until
-- the commit. Does nothing where the owner of the schema may not change roles.
CREATE OR REPLACE FUNCTION fetchwork.forget_identities()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    ours text := format(
        '^fetchwork_(host|joined_point|invited)_%s_[0-9]+$',
        (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    );
BEGIN
    UPDATE fetchwork.invitation AS v
    SET ended_at = v.valid_until
    WHERE v.ended_at IS NULL AND v.valid_until < clock_timestamp();
    DELETE FROM fetchwork.host AS h
    WHERE h.host_id IN (
        SELECT l.host_id
        FROM fetchwork.host AS l
        JOIN fetchwork.host_identity AS i ON i.host_id = l.host_id
        JOIN fetchwork.invitation AS v ON v.number = i.invitation
        WHERE v.ephemeral
            AND greatest(l.seen_at, i.joined_at) < clock_timestamp() - interval '1 hour'
            AND (l.lease_until > clock_timestamp()) IS NOT TRUE
            AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.host_id = l.host_id)
        LIMIT 500
        FOR UPDATE OF l SKIP LOCKED
    );
    DELETE FROM fetchwork.host_identity AS i
    WHERE i.valid_until < clock_timestamp() - interval '30 days';
    DELETE FROM fetchwork.person_token AS t
    WHERE least(t.valid_until, t.revoked_at) < clock_timestamp() - interval '30 days';
    DELETE FROM fetchwork.invitation AS v
    WHERE v.ended_at < clock_timestamp() - interval '30 days'
        AND NOT EXISTS (SELECT FROM fetchwork.host_identity AS i WHERE i.invitation = v.number);
    PERFORM fetchwork.end_login(l.role)
    FROM (
        SELECT r.rolname AS role
        FROM pg_roles AS r
        WHERE r.rolname ~ ours
            AND NOT EXISTS (
                SELECT FROM fetchwork.host_identity AS i
                WHERE i.role = r.rolname AND i.revoked_at IS NULL
            )
            AND NOT EXISTS (
                SELECT FROM fetchwork.invitation AS v
                WHERE v.role = r.rolname AND v.ended_at IS NULL
            )
        -- some can't be dropped, and must not keep the others
        ORDER BY random()
        LIMIT 500
    ) AS l;
EXCEPTION
    WHEN insufficient_privilege THEN NULL;
END
$$;
