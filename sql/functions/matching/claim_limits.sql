-- The limits on claims for these choices, as arrays that claim_many updates as it claims. By limit: its
-- scope, its name, its maximum and its use. Choice c has the limits numbered held[k], for k from firsts[c] to
-- firsts[c + 1] - 1, and a run of it takes takes[k] of each (NULL: its weight). largest has the most that one
-- run takes of a limit (NULL: a weight). A limit on starts has "starts", the number of its last start
-- (spent), and as its maximum the number of starts that it allows now. Choices that are closed are left out.
-- most: so many slots claim; heaviest: the largest weight of a run. The use may be overestimated
-- (count_limits) if that makes no difference for so many runs; else it is counted anew.
-- Locks: those of count_limits. The caller holds the lock of lock_limits.
CREATE OR REPLACE FUNCTION fetchwork.claim_limits(
    autoclusters integer [],
    closed boolean [],
    most integer,
    heaviest double precision
)
RETURNS TABLE (
    firsts integer [],
    held integer [],
    takes double precision [],
    scopes text [],
    names text [],
    maxima double precision [],
    used double precision [],
    largest double precision [],
    starts integer [],
    spent bigint []
)
LANGUAGE plpgsql
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    open integer[] := ARRAY(
        SELECT DISTINCT c.autocluster_id
        FROM unnest(autoclusters, claim_limits.closed) AS c (autocluster_id, closed)
        WHERE NOT c.closed
    );
    after bigint := fetchwork.count_limits();
BEGIN
    LOOP
        WITH bound AS (
            SELECT
                l.autocluster_id, l.scope, l.name, l.amount, l.maximum,
                coalesce(u.used, 0) + CASE WHEN after > 0 THEN c.used ELSE 0 END AS used,
                NULL AS starts, NULL AS spent
            FROM fetchwork.limits_on(open) AS l
            LEFT JOIN fetchwork.limit_uses(after) AS u ON u.scope = l.scope AND u.name = l.name
            -- a limit without a row was made after the count
            LEFT JOIN fetchwork.limit_count AS c
                ON c.scope = l.scope AND c.name = l.name AND c.last_run = after
            UNION ALL
            SELECT l.autocluster_id, l.scope, l.name, 1, l.room, 0, l.starts, l.spent
            FROM fetchwork.start_limits_of(open, claim_limits.most) AS l
        ),
        numbered AS MATERIALIZED (
            SELECT
                c.choice, b.*,
                dense_rank() OVER (ORDER BY b.starts IS NULL, b.scope, b.name)::integer AS n,
                row_number() OVER (ORDER BY c.choice)::integer AS k
            FROM unnest(autoclusters, claim_limits.closed)
                WITH ORDINALITY AS c (autocluster_id, closed, choice)
            JOIN bound AS b ON b.autocluster_id = c.autocluster_id
            WHERE NOT c.closed
        ),
        by_limit AS (
            SELECT
                array_agg(l.scope ORDER BY l.n) AS scopes, array_agg(l.name ORDER BY l.n) AS names,
                array_agg(l.maximum ORDER BY l.n) AS maxima, array_agg(l.used ORDER BY l.n) AS used,
                array_agg(l.largest ORDER BY l.n) AS largest, array_agg(l.starts ORDER BY l.n) AS starts,
                array_agg(l.spent ORDER BY l.n) AS spent
            FROM (
                SELECT k.n, k.scope, k.name, k.maximum, k.used, k.starts, k.spent, max(k.amount) AS largest
                FROM numbered AS k
                GROUP BY k.n, k.scope, k.name, k.maximum, k.used, k.starts, k.spent
            ) AS l
        ),
        by_choice AS (
            -- a choice without a limit begins where the next one does
            SELECT array_agg(s.first ORDER BY s.choice) AS firsts
            FROM (
                SELECT
                    c.choice,
                    coalesce(
                        min(min(k.k)) OVER (ORDER BY c.choice DESC),
                        (SELECT count(*) + 1 FROM numbered)
                    )::integer AS first
                FROM generate_series(1, cardinality(autoclusters) + 1) AS c (choice)
                LEFT JOIN numbered AS k ON k.choice = c.choice
                GROUP BY c.choice
            ) AS s
        )
        SELECT
            c.firsts, k.held, k.takes,
            l.scopes, l.names, l.maxima, l.used, l.largest, l.starts, l.spent
        INTO firsts, held, takes, scopes, names, maxima, used, largest, starts, spent
        FROM by_choice AS c
        CROSS JOIN by_limit AS l
        CROSS JOIN (
            SELECT array_agg(n.n ORDER BY n.k) AS held, array_agg(n.amount ORDER BY n.k) AS takes
            FROM numbered AS n
        ) AS k;
        EXIT WHEN after = 0 OR NOT EXISTS (
            SELECT FROM unnest(maxima, used, largest, starts) AS l (maximum, used, largest, starts)
            WHERE l.starts IS NULL
                AND coalesce(
                    l.used + claim_limits.most * coalesce(l.largest, claim_limits.heaviest) > l.maximum,
                    true
                )
        );
        after := 0;
    END LOOP;
    RETURN NEXT;
END
$$;
