-- Registers an agent's host; returns the host's id, its lease in seconds and the schema's version. The lease
-- starts now: as long as the agent wants, or the setting host_lease. location tells people where the agent
-- runs.
-- Two agents of one name would take each other's runs for lost. So an agent is refused (FWTWO) while another
-- agent_id holds a live lease, unless that is in "replaces", whose processes are known to be dead. Errors:
-- FWTWO, FWINV.
CREATE OR REPLACE FUNCTION fetchwork.hello(
    host text,
    agent_version text,
    agent_id uuid,
    wanted_lease_s double precision DEFAULT NULL,
    location text DEFAULT NULL,
    replaces text [] DEFAULT NULL,
    signals_jobs boolean DEFAULT false
)
RETURNS TABLE (
    host_id integer,
    lease_s double precision,
    schema_version integer
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    told_location text := concat_ws(', ', left(location, 500), 'from ' || host(inet_client_addr()));
BEGIN
    PERFORM fetchwork.require_host((SELECT h.host_id FROM fetchwork.host AS h WHERE h.name = hello.host));
    IF coalesce(host, '') !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}$' THEN
        RAISE EXCEPTION '% is not a host name; allowed: letters, digits, _ . -',
            quote_nullable(left(host, 80)) USING ERRCODE = 'FWINV';
    END IF;
    IF hello.agent_version IS NULL OR hello.agent_id IS NULL THEN
        RAISE EXCEPTION 'agent of host % has no version or no id',
            quote_nullable(host) USING ERRCODE = 'FWINV';
    END IF;
    IF wanted_lease_s NOT BETWEEN 1 AND 86400 THEN
        RAISE EXCEPTION 'lease of host % is % s; allowed: 1 to 86400',
            quote_nullable(host), wanted_lease_s USING ERRCODE = 'FWINV';
    END IF;
    -- an agent may still use the next host id
    IF NOT fetchwork.is_same_server() THEN
        PERFORM fetchwork.skip_ids();
        -- a standby that takes over before the first look for lost runs has to know that it is one
        IF EXISTS (SELECT FROM fetchwork.heartbeat AS b WHERE b.server IS NULL) THEN
            PERFORM fetchwork.note_move();
        END IF;
    END IF;
    lease_s := coalesce(wanted_lease_s, fetchwork.setting_value('host_lease')::double precision);
    INSERT INTO fetchwork.host AS h (
        name, agent_version, agent_id, agent_location, lease, lease_until, signals_jobs
    )
    VALUES (
        hello.host, hello.agent_version, hello.agent_id, told_location,
        make_interval(secs => wanted_lease_s), clock_timestamp() + make_interval(secs => hello.lease_s),
        hello.signals_jobs
    )
    ON CONFLICT (name) DO UPDATE SET
        seen_at = clock_timestamp(),
        agent_version = excluded.agent_version,
        agent_id = excluded.agent_id,
        agent_location = excluded.agent_location,
        lease = excluded.lease,
        lease_until = excluded.lease_until,
        signals_jobs = excluded.signals_jobs
    WHERE excluded.agent_id = h.agent_id
        OR h.agent_id::text = ANY (hello.replaces)
        OR (h.lease_until > clock_timestamp()) IS NOT TRUE
    RETURNING h.host_id INTO hello.host_id;
    IF hello.host_id IS NULL THEN
        PERFORM fetchwork.refuse_agent(h, hello.agent_id, told_location)
        FROM fetchwork.host AS h
        WHERE h.name = hello.host;
    END IF;
    SELECT max(m.version)
    INTO hello.schema_version
    FROM fetchwork.migration AS m;
    RETURN NEXT;
END
$$;
