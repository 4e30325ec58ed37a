-- The demand that a slot with these resources could serve: each (autocluster, JobPrio) that waits, fits by
-- the numbers that SQL knows, is in a queue that is not paused, was not just refused by the slot, and can be
-- evaluated by the host. The agent evaluates Requirements, Rank and share on its cached ads. A black hole
-- gets only a probe now and then. Without a slot: the demand that any slot of the host could serve
-- (functions/matching/read_demand.sql). With since: only demand that this or a later transaction announced.
-- limited: a claim has to count for it (limited_autoclusters). A resource that is NULL excludes no
-- autocluster.
CREATE OR REPLACE FUNCTION fetchwork.candidates(
    host_id integer,
    slot text,
    queues text [],
    cpus double precision DEFAULT NULL,
    memory_mib double precision DEFAULT NULL,
    disk_kib double precision DEFAULT NULL,
    gpus double precision DEFAULT NULL,
    since xid8 DEFAULT '0'
)
RETURNS TABLE (
    autocluster_id integer,
    job_prio integer,
    submitter text,
    limited boolean,
    request_cpus double precision,
    request_memory_mib double precision,
    request_disk_kib double precision,
    request_gpus double precision
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(candidates.host_id);
    WITH limited AS MATERIALIZED (
        SELECT l.autocluster_id
        FROM fetchwork.limited_autoclusters(ARRAY(
            SELECT d.autocluster_id
            FROM fetchwork.demand AS d
            WHERE d.xid >= candidates.since
        )) AS l (autocluster_id)
    )
    SELECT DISTINCT d.autocluster_id, d.job_prio, a.submitter,
        a.autocluster_id IN (SELECT l.autocluster_id FROM limited AS l),
        a.request_cpus, a.request_memory_mib, a.request_disk_kib, a.request_gpus
    FROM fetchwork.turned_away(candidates.host_id) AS t
    CROSS JOIN fetchwork.demand AS d
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = d.autocluster_id
    JOIN fetchwork.queue AS q ON q.name = a.queue
    WHERE d.xid >= candidates.since
        AND a.queue = ANY (candidates.queues)
        AND fetchwork.serves_queue(a.queue)
        AND a.access_point IS NULL
        AND NOT q.paused
        AND (
            a.request_cpus IS NULL
            OR candidates.cpus IS NULL
            OR a.request_cpus <= candidates.cpus
        )
        AND (
            a.request_memory_mib IS NULL
            OR candidates.memory_mib IS NULL
            OR a.request_memory_mib <= candidates.memory_mib
        )
        AND (
            a.request_disk_kib IS NULL
            OR candidates.disk_kib IS NULL
            OR a.request_disk_kib <= candidates.disk_kib
        )
        AND (
            a.request_gpus IS NULL
            OR candidates.gpus IS NULL
            OR a.request_gpus <= candidates.gpus
        )
        AND NOT EXISTS (
            SELECT FROM fetchwork.slot_rest AS r
            WHERE r.host_id = candidates.host_id
                AND r.slot = candidates.slot
                AND r.autocluster_id = d.autocluster_id
                AND r.rest_until > now()
        )
        AND NOT EXISTS (
            SELECT FROM fetchwork.autocluster_fault AS f
            WHERE f.autocluster_id = d.autocluster_id
                AND f.host_id = candidates.host_id
                AND f.rest_until > now()
        )
        AND (
            NOT t.black_hole
            OR CASE WHEN a.owner = ANY (t.failing) THEN a.owner <> ALL (t.closed) ELSE t.newcomers END
        );
END;
