-- Starts and ends of each host's runs that ended in the last week, by quarters of an hour. Readers that don't
-- see all jobs get no rows. Runs that functions/maintenance/count_runs.sql has not counted yet are rows of
-- their own.
CREATE OR REPLACE VIEW fetchwork.host_counts WITH (security_barrier) AS
SELECT h.name AS machine, u.counted_at, u.starts, u.ends, u.bad_ends AS badends
FROM (
    SELECT k.host_id, k.at AS counted_at, k.starts, k.ends, k.bad_ends
    FROM fetchwork.host_count AS k
    WHERE k.at > now() - interval '7 days'
    UNION ALL
    SELECT
        r.host_id, date_bin('15 minutes', e.at, 'epoch'), e.starts, 1 - e.starts,
        CASE WHEN e.starts = 0 AND r.outcome <> 'completed' THEN 1 ELSE 0 END
    FROM fetchwork.run_history AS r
    CROSS JOIN LATERAL (VALUES (r.started_at, 1), (r.ended_at, 0)) AS e (at, starts)
    WHERE r.ended_at BETWEEN (
            SELECT greatest(c.up_to, now() - interval '7 days')
            FROM fetchwork.counted AS c
        ) AND 'infinity'
        AND r.started_at IS NOT NULL
) AS u
JOIN fetchwork.host AS h ON h.host_id = u.host_id
WHERE (SELECT fetchwork.sees_all(current_user));
