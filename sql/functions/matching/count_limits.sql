-- Counts the use of all limits on running jobs, unless that was done within the last second. Returns the last
-- run that was counted. At any later time, the use of a limit is at most the counted one and that of later
-- runs (limit_uses).
-- The caller holds the lock of lock_limits: then no limited run with a smaller number is still being made.
-- Locks: the rows of limit_count, which no other function writes.
CREATE OR REPLACE FUNCTION fetchwork.count_limits()
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    counted bigint;
BEGIN
    SELECT max(c.last_run)
    INTO counted
    FROM fetchwork.limit_count AS c
    WHERE c.counted_at BETWEEN clock_timestamp() - interval '1 s' AND clock_timestamp();
    IF counted IS NOT NULL THEN
        RETURN counted;
    END IF;
    -- one statement, so that it counts the runs up to the last one that it sees
    INSERT INTO fetchwork.limit_count AS c (scope, name, used, last_run, counted_at)
    SELECT k.scope, k.name, coalesce(u.used, 0), r.last_run, clock_timestamp()
    FROM (
        SELECT 'limit' AS scope, l.name
        FROM fetchwork.concurrency_limit AS l
        UNION ALL
        SELECT 'queue', q.name
        FROM fetchwork.queue AS q
        WHERE q.max_running IS NOT NULL
        UNION ALL
        SELECT 'submitter', s.name
        FROM fetchwork.submitter AS s
        WHERE s.max_running IS NOT NULL
        UNION ALL
        SELECT 'group', g.name
        FROM fetchwork.accounting_group AS g
        WHERE NOT g.accept_surplus
    ) AS k
    LEFT JOIN fetchwork.limit_uses() AS u ON u.scope = k.scope AND u.name = k.name
    CROSS JOIN (SELECT coalesce(max(n.run_id), 0) AS last_run FROM fetchwork.run AS n) AS r
    ON CONFLICT (scope, name) DO UPDATE SET
        used = excluded.used, last_run = excluded.last_run, counted_at = excluded.counted_at;
    DELETE FROM fetchwork.limit_count AS c
    WHERE c.counted_at NOT BETWEEN clock_timestamp() - interval '1 s' AND clock_timestamp();
    RETURN (SELECT max(c.last_run) FROM fetchwork.limit_count AS c);
END
$$;
