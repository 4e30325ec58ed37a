-- The limit that keeps one more run of this autocluster from being claimed now, in a sentence; NULL if no
-- limit does: a paused queue, a concurrency limit (HTCondor's "name:amount,name"; a name without a limit is
-- unlimited), a maximum of running jobs of the queue or the submitter, a limit on starts, the quota of a
-- group that takes no surplus. Counts the live runs. weight: SlotWeight of the run; NULL: RequestCpus of the
-- job. Jobs of the scheduler universe take no slot and are not counted: a DAG must not block its nodes.
-- A claim holds the lock of lock_limits, so that two claims can't both get the last unit. For people it takes
-- no lock, so a claim may find otherwise a moment later.
-- Does not turn sequential scans off, as claim does: here, where all live runs are counted, they are right,
-- and the penalty would call in the JIT compiler.
CREATE OR REPLACE FUNCTION fetchwork.blocked_by(autocluster integer, weight double precision DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
STABLE
SET enable_seqscan = on
SET jit = off
AS $$
BEGIN
    RETURN (
        WITH asking AS (
            SELECT
                a.queue, a.submitter, a.concurrency_limits,
                coalesce(blocked_by.weight, a.request_cpus, 1) AS weight
            FROM fetchwork.autocluster AS a
            WHERE a.autocluster_id = blocked_by.autocluster
        ),
        live AS NOT MATERIALIZED (
            SELECT a.queue, a.submitter, r.weight
            FROM fetchwork.run AS r
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
            WHERE a.access_point IS NULL
        ),
        reasons AS (
            SELECT 1 AS n, format('queue "%s" is paused', q.name) AS reason
            FROM asking
            JOIN fetchwork.queue AS q ON q.name = asking.queue AND q.paused
            UNION ALL
            SELECT
                2,
                format(
                    'concurrency limit "%s" is reached: %s of %s in use, a job takes %s',
                    l.name, l.used, l.maximum, asked.amount
                )
            FROM asking
            CROSS JOIN LATERAL regexp_split_to_table(asking.concurrency_limits, '[\s,]+') AS part (text)
            CROSS JOIN LATERAL (
                SELECT coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1) AS amount
            ) AS asked
            JOIN fetchwork.limits AS l ON l.name = split_part(part.text, ':', 1)
            WHERE l.maximum IS NOT NULL AND l.used + asked.amount > l.maximum
            UNION ALL
            SELECT 3, format('queue "%s" has its maximum of %s jobs running', q.name, q.max_running)
            FROM asking
            JOIN fetchwork.queue AS q ON q.name = asking.queue
            WHERE q.max_running IS NOT NULL
                AND q.max_running <= (SELECT count(*) FROM live AS r WHERE r.queue = q.name)
            UNION ALL
            SELECT 4, format('submitter "%s" has its maximum of %s jobs running', s.name, s.max_running)
            FROM asking
            JOIN fetchwork.submitter AS s ON s.name = asking.submitter
            WHERE s.max_running IS NOT NULL
                AND s.max_running <= (SELECT count(*) FROM live AS r WHERE r.submitter = s.name)
            UNION ALL
            SELECT
                5,
                format(
                    '%s "%s" allows %s starts in %s s: the next in %s s',
                    CASE l.scope WHEN 'limit' THEN 'concurrency limit' ELSE l.scope END,
                    l.name, l.starts, l.seconds,
                    round(ceil(10 * extract(epoch FROM l.free_at - clock_timestamp())) / 10, 1)
                )
            FROM fetchwork.start_limits_of(blocked_by.autocluster) AS l
            WHERE EXISTS (SELECT FROM fetchwork.start_limit) AND l.free_at > clock_timestamp()
            UNION ALL
            SELECT
                6,
                format(
                    'group "%s" has its quota of %s in use: %s, a job takes %s',
                    g.name, round(c.subtree_quota::numeric, 2)::real, used.weight::real, asking.weight::real
                )
            FROM asking
            JOIN fetchwork.accounting_group AS g ON NOT g.accept_surplus
                AND lower(g.name) = ANY (fetchwork.group_path(asking.submitter))
            JOIN fetchwork.group_count AS c ON c.name = g.name
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(r.weight), 0) AS weight
                FROM live AS r
                WHERE lower(g.name) = ANY (fetchwork.group_path(r.submitter))
            ) AS used
            WHERE EXISTS (SELECT FROM fetchwork.accounting_group) AND fetchwork.has_quota(asking.submitter)
                AND used.weight + asking.weight > c.subtree_quota
                -- as the negotiator: a quota below one job's weight lets one job run
                AND NOT (used.weight = 0 AND c.subtree_quota > 0)
        )
        SELECT r.reason
        FROM reasons AS r
        ORDER BY r.n, r.reason
        LIMIT 1
    );
END
$$;
