-- The accounting groups with their quotas and use, counted at most a second ago, for the agent of a host, and
-- those of "<none>", the submitters without a group. No row: there is no group. Figures are weighted slots.
-- in_use: slots that were freed in the last 5 s and are still free are in it (count_groups). free: the other
-- free slots of the pool when they were counted; own_free: all slots of the host that are free now;
-- own_slots: all slots of the host. age_s: seconds since they were counted. anew: groups are counted now, so
-- that they know the caller's new slots.
CREATE OR REPLACE FUNCTION fetchwork.read_groups(host_id integer, anew boolean DEFAULT false)
RETURNS TABLE (
    name text,
    parent text,
    accept_surplus boolean,
    autoregroup boolean,
    subtree_quota double precision,
    quota double precision,
    in_use double precision,
    subtree_in_use double precision,
    requested double precision,
    free double precision,
    own_free double precision,
    own_slots double precision,
    age_s double precision
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    host_slots double precision;
    host_in_use double precision;
BEGIN
    PERFORM fetchwork.require_host(read_groups.host_id);
    -- not durable: the next call counts anew
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM fetchwork.count_groups(anew);
    SELECT coalesce(sum(s.weight), 0)
    INTO host_slots
    FROM fetchwork.slot AS s
    WHERE s.host_id = read_groups.host_id AND s.slot_type IS DISTINCT FROM 'Dynamic';
    SELECT coalesce(sum(r.weight), 0)
    INTO host_in_use
    FROM fetchwork.run AS r
    WHERE r.host_id = read_groups.host_id;
    RETURN QUERY
    SELECT
        c.name, CASE WHEN c.name <> '<none>' THEN coalesce(g.parent, '<none>') END,
        coalesce(g.accept_surplus, true), coalesce(g.autoregroup, false),
        c.subtree_quota, c.quota, c.in_use, c.subtree_in_use, c.requested,
        greatest(0, pool.free), greatest(0, host_slots - host_in_use), host_slots,
        extract(epoch FROM clock_timestamp() - c.counted_at)::double precision
    FROM fetchwork.group_count AS c
    LEFT JOIN fetchwork.accounting_group AS g ON g.name = c.name
    CROSS JOIN (
        SELECT r.subtree_quota - r.subtree_in_use AS free
        FROM fetchwork.group_count AS r
        WHERE r.name = '<none>'
    ) AS pool
    WHERE EXISTS (SELECT FROM fetchwork.accounting_group) AND (c.name = '<none>' OR g.name IS NOT NULL)
    ORDER BY c.name <> '<none>', c.name;
END
$$;
