-- Counts quotas and use of the accounting groups anew, unless that was done within the last 0.3 s for all of
-- them (anew: even then), or another transaction does it now.
-- A slot that a run freed in the last 5 s, and that is still free, counts as in use by the run's group: its
-- host is about to claim for it again (FREED_S in fetchwork/matching/groups.py). The figures are sums of each
-- host's slots, so no slot has to be known by its name.
-- Locks: the turn of groups, which it does not wait for, and the rows of group_count. set_group does not call
-- it: a manager's open transaction would keep all others from counting.
CREATE OR REPLACE FUNCTION fetchwork.count_groups(anew boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.accounting_group)
        OR (
            NOT anew AND NOT EXISTS (
                SELECT
                FROM fetchwork.accounting_group AS g
                LEFT JOIN fetchwork.group_count AS c ON c.name = g.name
                    AND c.counted_at BETWEEN clock_timestamp() - interval '0.3 s' AND clock_timestamp()
                WHERE c.name IS NULL
            )
        )
        OR NOT fetchwork.take_turn('groups')
    THEN
        RETURN;
    END IF;
    INSERT INTO fetchwork.group_count AS c (
        name, subtree_quota, quota, in_use, subtree_in_use, requested, counted_at
    )
    WITH ended AS (
        SELECT
            r.host_id, coalesce(fetchwork.group_of(a.submitter), '<none>') AS name, sum(r.weight) AS weight
        FROM fetchwork.run_history AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
        WHERE r.ended_at > now() - interval '5 s' AND r.started_at IS NOT NULL AND a.access_point IS NULL
        GROUP BY r.host_id, coalesce(fetchwork.group_of(a.submitter), '<none>')
    ),
    host AS (
        SELECT
            e.host_id, e.weight AS ended,
            (
                SELECT coalesce(sum(s.weight), 0)
                FROM fetchwork.slot AS s
                WHERE s.host_id = e.host_id AND s.slot_type IS DISTINCT FROM 'Dynamic'
            ) - (
                SELECT coalesce(sum(r.weight), 0)
                FROM fetchwork.run AS r
                WHERE r.host_id = e.host_id
            ) AS free
        FROM (SELECT t.host_id, sum(t.weight) AS weight FROM ended AS t GROUP BY t.host_id) AS e
    ),
    freed AS (
        SELECT e.name, sum(e.weight * least(1, greatest(0, h.free) / h.ended)) AS weight
        FROM ended AS e
        JOIN host AS h ON h.host_id = e.host_id AND h.ended > 0
        GROUP BY e.name
    )
    SELECT
        f.name, f.subtree_quota, f.quota,
        f.in_use + coalesce((SELECT d.weight FROM freed AS d WHERE d.name = f.name), 0),
        f.subtree_in_use + (
            SELECT coalesce(sum(d.weight), 0)
            FROM freed AS d
            WHERE f.name = '<none>' OR d.name = f.name OR starts_with(lower(d.name), lower(f.name) || '.')
        ),
        f.requested, clock_timestamp()
    FROM fetchwork.group_figures() AS f
    ON CONFLICT (name) DO UPDATE SET
        subtree_quota = excluded.subtree_quota,
        quota = excluded.quota,
        in_use = excluded.in_use,
        subtree_in_use = excluded.subtree_in_use,
        requested = excluded.requested,
        counted_at = excluded.counted_at;
    DELETE FROM fetchwork.group_count AS c
    WHERE c.name <> '<none>'
        AND NOT EXISTS (SELECT FROM fetchwork.accounting_group AS g WHERE g.name = c.name);
END
$$;
