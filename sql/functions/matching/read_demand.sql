-- The demand that a host could serve, for its agent's copy: all of it, or only demand announced since an
-- earlier answer, whose "seen" is passed as since. Always: the backoffs of the host's slots (slot_rest), in
-- remaining seconds; how many agents are alive, over which the announcement of one job spreads; and whether
-- the host is a black hole (candidates).
-- seen is the oldest transaction that had not ended: demand that it or a later one announces is in the next
-- answer, perhaps for the second time, however late it commits. No answer says which demand ended since: a
-- claim finds out, and the agent reads everything now and then. A since that lies ahead is from a replaced
-- server: then everything is returned.
-- A new row of "waiting" under an existing row of "demand" is only notified
-- (functions/matching/ensure_demand.sql), so an agent without notifications tries the demand that it has.
CREATE OR REPLACE FUNCTION fetchwork.read_demand(host_id integer, queues text [], since xid8 DEFAULT '0')
RETURNS TABLE (
    seen xid8,
    whole boolean,
    agents bigint,
    black_hole boolean,
    -- parallel: the demand, and the resources that it requests
    autoclusters integer [],
    prios integer [],
    cpus double precision [],
    memory_mib double precision [],
    disk_kib double precision [],
    gpus double precision [],
    -- parallel: the backoffs
    resting_slots text [],
    resting_autoclusters integer [],
    resting_s double precision []
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(read_demand.host_id);
    WITH asked AS (
        SELECT CASE
            WHEN read_demand.since > pg_snapshot_xmin(pg_current_snapshot()) THEN '0'
            ELSE read_demand.since
        END AS since
    ),
    waits AS (
        SELECT
            array_agg(c.autocluster_id) AS autoclusters,
            array_agg(c.job_prio) AS prios,
            array_agg(c.request_cpus) AS cpus,
            array_agg(c.request_memory_mib) AS memory_mib,
            array_agg(c.request_disk_kib) AS disk_kib,
            array_agg(c.request_gpus) AS gpus
        FROM asked
        CROSS JOIN LATERAL fetchwork.candidates(
            read_demand.host_id, NULL, read_demand.queues, since => asked.since
        ) AS c
    ),
    resting AS (
        SELECT
            array_agg(r.slot) AS slots,
            array_agg(r.autocluster_id) AS autoclusters,
            array_agg(extract(epoch FROM r.rest_until - now())::double precision) AS seconds
        FROM fetchwork.slot_rest AS r
        WHERE r.host_id = read_demand.host_id AND r.rest_until > now()
    )
    SELECT
        pg_snapshot_xmin(pg_current_snapshot()),
        asked.since = '0',
        (SELECT count(*) FROM fetchwork.host AS h WHERE h.lease_until > now()),
        EXISTS (
            SELECT FROM fetchwork.host AS h
            WHERE h.host_id = read_demand.host_id AND h.black_hole_since IS NOT NULL
        ),
        coalesce(waits.autoclusters, '{}'), coalesce(waits.prios, '{}'), coalesce(waits.cpus, '{}'),
        coalesce(waits.memory_mib, '{}'), coalesce(waits.disk_kib, '{}'), coalesce(waits.gpus, '{}'),
        coalesce(resting.slots, '{}'), coalesce(resting.autoclusters, '{}'), coalesce(resting.seconds, '{}')
    FROM asked
    CROSS JOIN waits
    CROSS JOIN resting;
END;
