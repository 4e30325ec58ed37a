-- The limit that keeps one more run of this autocluster from being claimed now, in a sentence; NULL if no
-- limit does: a paused queue, a limit on running jobs (limits_on), a limit on starts (start_limits_of).
-- weight: SlotWeight of the run; NULL: RequestCpus of the job. For people: it takes no lock, so a claim,
-- which counts by the same functions, may find otherwise a moment later.
CREATE OR REPLACE FUNCTION fetchwork.blocked_by(autocluster integer, weight double precision DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (
        WITH asking AS (
            SELECT a.queue, coalesce(blocked_by.weight, a.request_cpus, 1) AS weight
            FROM fetchwork.autocluster AS a
            WHERE a.autocluster_id = blocked_by.autocluster
        ),
        reached AS (
            SELECT l.*
            FROM (
                SELECT
                    k.scope, k.name, k.maximum, coalesce(u.used, 0) AS used,
                    coalesce(k.amount, asking.weight) AS amount
                FROM asking
                CROSS JOIN fetchwork.limits_on(ARRAY[blocked_by.autocluster]) AS k
                LEFT JOIN fetchwork.limit_uses() AS u ON u.scope = k.scope AND u.name = k.name
            ) AS l
            WHERE l.used + l.amount > l.maximum
                -- as the negotiator: a quota below one job's weight lets one job run
                AND NOT (l.scope = 'group' AND l.used = 0 AND l.maximum > 0)
        ),
        reasons AS (
            SELECT 1 AS n, format('queue "%s" is paused', q.name) AS reason
            FROM asking
            JOIN fetchwork.queue AS q ON q.name = asking.queue AND q.paused
            UNION ALL
            SELECT
                CASE r.scope WHEN 'limit' THEN 2 WHEN 'queue' THEN 3 WHEN 'submitter' THEN 4 ELSE 6 END,
                CASE r.scope
                    WHEN 'limit' THEN format(
                        'concurrency limit "%s" is reached: %s of %s in use, a job takes %s',
                        r.name, r.used, r.maximum, r.amount
                    )
                    WHEN 'group' THEN format(
                        'group "%s" has its quota of %s in use: %s, a job takes %s',
                        r.name, round(r.maximum::numeric, 2)::real, r.used::real, r.amount::real
                    )
                    ELSE format('%s "%s" has its maximum of %s jobs running', r.scope, r.name, r.maximum)
                END
            FROM reached AS r
            UNION ALL
            SELECT
                5,
                format(
                    '%s "%s" allows %s starts in %s s: the next in %s s',
                    CASE l.scope WHEN 'limit' THEN 'concurrency limit' ELSE l.scope END,
                    l.name, l.starts, l.seconds,
                    round(ceil(10 * extract(epoch FROM l.free_at - clock_timestamp())) / 10, 1)
                )
            FROM fetchwork.start_limits_of(ARRAY[blocked_by.autocluster]) AS l
            WHERE l.free_at > clock_timestamp()
        )
        SELECT r.reason
        FROM reasons AS r
        ORDER BY r.n, r.reason
        LIMIT 1
    );
END
$$;
