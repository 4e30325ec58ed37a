-- For an administrator: makes an invitation, by which hosts join (join_host) and get an identity each.
-- Returns its number, and the role and database to log in with; the caller keeps the password that the SCRAM
-- verifier is made of.
-- hosts: a pattern of their names, with * and ?. queues: those that they serve; NULL: all. uses: so many
-- hosts may join. max_slots: so many live runs may each host have, which may request as many Cpus together.
-- trusted: they do the tasks that show the jobs of other hosts (policies of jobs that wait, deletes in
-- buckets). ephemeral: pilots, which are forgotten an hour after their last beat. owners: for access points,
-- which act for the accounts of this pattern alone; NULL: for hosts.
-- Errors: FWDEN, FWINV, FWNOT (a queue).
CREATE OR REPLACE FUNCTION fetchwork.invite_host(
    verifier text,
    hosts text DEFAULT '*',
    queues text [] DEFAULT NULL,
    uses integer DEFAULT 1,
    valid_s double precision DEFAULT 3600,
    max_slots integer DEFAULT NULL,
    trusted boolean DEFAULT false,
    ephemeral boolean DEFAULT false,
    owners text DEFAULT NULL
)
RETURNS TABLE (number integer, role name, database name, valid_until timestamptz)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    unknown text;
BEGIN
    PERFORM fetchwork.require_admin();
    IF invite_host.hosts !~ '^[A-Za-z0-9_.*?-]{1,255}$' THEN
        RAISE EXCEPTION '% is no pattern of host names; allowed: letters, digits, _ . - * ?',
            quote_nullable(left(invite_host.hosts, 80)) USING ERRCODE = 'FWINV';
    END IF;
    IF (
        invite_host.uses BETWEEN 1 AND 100000
        AND invite_host.valid_s BETWEEN 1 AND 31622400
        AND coalesce(invite_host.max_slots > 0, true)
    ) IS NOT TRUE THEN
        RAISE EXCEPTION 'an invitation is for % hosts, % s and % slots; allowed: 1 to 100000, 1 to 31622400, '
            'at least 1',
            invite_host.uses, invite_host.valid_s, invite_host.max_slots USING ERRCODE = 'FWINV';
    END IF;
    IF invite_host.owners !~ '^[A-Za-z0-9_.*?-]{1,64}$' THEN
        RAISE EXCEPTION '% is no pattern of account names; allowed: letters, digits, _ . - * ?',
            quote_nullable(left(invite_host.owners, 80)) USING ERRCODE = 'FWINV';
    END IF;
    IF invite_host.owners IS NOT NULL
        AND (
            invite_host.queues IS NOT NULL OR invite_host.max_slots IS NOT NULL OR invite_host.trusted
            OR invite_host.ephemeral
        )
    THEN
        RAISE EXCEPTION 'an invitation of access points has no queues and no slots, and is neither trusted '
            'nor ephemeral' USING ERRCODE = 'FWINV';
    END IF;
    SELECT wanted.name
    INTO unknown
    FROM unnest(invite_host.queues) AS wanted (name)
    WHERE NOT EXISTS (SELECT FROM fetchwork.queue AS q WHERE q.name = wanted.name)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'queue % is not there; an administrator calls fetchwork.set_queue',
            quote_nullable(unknown) USING ERRCODE = 'FWNOT';
    END IF;
    valid_until := clock_timestamp() + make_interval(secs => invite_host.valid_s);
    SELECT m.number, m.role
    INTO invite_host.number, invite_host.role
    FROM fetchwork.make_login('fetchwork_invited', invite_host.verifier, valid_until) AS m;
    INSERT INTO fetchwork.invitation (
        number, role, hosts, queues, uses, max_slots, trusted, ephemeral, owners, valid_until, invited_by
    )
    VALUES (
        number, role, invite_host.hosts, invite_host.queues, invite_host.uses, invite_host.max_slots,
        invite_host.trusted, invite_host.ephemeral, invite_host.owners, valid_until, session_user
    );
    PERFORM fetchwork.note_action('invite_host', NULL, NULL, number::text, invite_host.hosts);
    database := current_database();
    RETURN NEXT;
END
$$;
