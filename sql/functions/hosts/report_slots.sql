-- Stores the slots as FETCH_WORK showed them to an agent, many slots at a time and not at each fetch:
-- [{"name", "state", "activity", "slot_type", "cpus", "memory_mib", "disk_kib", "gpus", "last_answer",
-- "fetched_at" (epoch s), "queues", "weight", "children", "ad"}, ...]. "children" has the names of a
-- partitionable slot's dynamic ones; null if its ad does not have them.
-- A dynamic slot is gone when a later fetch of its partitionable slot does not name it. Other slots of this
-- host are gone when the agent no longer reports them, after the startd was set up anew. A slot with a job of
-- ours stays.
CREATE OR REPLACE FUNCTION fetchwork.report_slots(host_id integer, slots jsonb)
RETURNS void
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(report_slots.host_id);
    INSERT INTO fetchwork.slot AS s (
        host_id, name, state, activity, slot_type,
        cpus, memory_mib, disk_kib, gpus,
        last_fetch_at, last_answer, queues, weight, ad
    )
    SELECT
        report_slots.host_id, t.name, t.state, t.activity, t.slot_type,
        t.cpus, t.memory_mib, t.disk_kib, t.gpus,
        to_timestamp(t.fetched_at), t.last_answer, t.queues,
        least(greatest(coalesce(t.weight, 1), 1e-6), 1e9),
        -- without secrets that the startd gives to some hooks
        t.ad - ARRAY['ClaimId', 'ClaimIdList', 'ChildClaimIds', 'PairedClaimId', 'Capability']
    FROM jsonb_to_recordset(report_slots.slots) AS t (
        name text,
        state text,
        activity text,
        slot_type text,
        cpus double precision,
        memory_mib double precision,
        disk_kib double precision,
        gpus double precision,
        fetched_at double precision,
        last_answer text,
        queues text [],
        weight double precision,
        ad jsonb
    )
    -- in one order, so that two calls can't deadlock
    ORDER BY t.name
    ON CONFLICT (host_id, name) DO UPDATE SET
        state = excluded.state,
        activity = excluded.activity,
        slot_type = excluded.slot_type,
        cpus = excluded.cpus,
        memory_mib = excluded.memory_mib,
        disk_kib = excluded.disk_kib,
        gpus = excluded.gpus,
        last_fetch_at = excluded.last_fetch_at,
        last_answer = excluded.last_answer,
        queues = excluded.queues,
        weight = excluded.weight,
        reported_at = clock_timestamp(),
        ad = coalesce(excluded.ad, s.ad);

    DELETE FROM fetchwork.slot AS s
    USING jsonb_to_recordset(report_slots.slots) AS p (
        name text, fetched_at double precision, children text []
    )
    WHERE s.host_id = report_slots.host_id
        AND s.slot_type = 'Dynamic'
        AND s.name <> ALL (p.children)
        AND s.last_fetch_at < to_timestamp(p.fetched_at)
        AND starts_with(s.name, split_part(p.name, '@', 1) || '_')
        AND split_part(s.name, '@', 2) = split_part(p.name, '@', 2)
        AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.host_id = s.host_id AND r.slot = s.name);

    DELETE FROM fetchwork.slot AS s
    WHERE s.host_id = report_slots.host_id
        AND s.reported_at < clock_timestamp() - CASE
            WHEN s.slot_type = 'Dynamic' THEN interval '3 minutes'
            ELSE interval '1 hour'
        END
        AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.host_id = s.host_id AND r.slot = s.name);
END;
