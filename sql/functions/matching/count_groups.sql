-- Counts quotas and use of the accounting groups anew, unless that was done within the last 0.3 s for all of
-- them (anew: even then), or another transaction does it now.
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
    SELECT f.name, f.subtree_quota, f.quota, f.in_use, f.subtree_in_use, f.requested, clock_timestamp()
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
