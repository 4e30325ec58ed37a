-- The limits on starts that a claim for this autocluster has to keep: those of its queue, its owner and the
-- concurrency limits that it names. spent is the number of the last start under the limit; 0: none. free_at
-- is the time from which the limit allows the next start; NULL: at any time. It depends on the one token that
-- is as many starts back as the limit allows, so its cost does not grow with the limit.
CREATE OR REPLACE FUNCTION fetchwork.start_limits_of(autocluster integer)
RETURNS TABLE (
    scope text,
    name text,
    starts integer,
    seconds double precision,
    spent bigint,
    free_at timestamptz
)
LANGUAGE plpgsql
STABLE
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH named AS (
        SELECT 'queue' AS scope, a.queue AS name
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = start_limits_of.autocluster
        UNION ALL
        SELECT 'owner', a.owner
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = start_limits_of.autocluster
        UNION ALL
        -- a job may name a limit twice
        SELECT DISTINCT 'limit', split_part(part.text, ':', 1)
        FROM fetchwork.autocluster AS a
        CROSS JOIN LATERAL regexp_split_to_table(a.concurrency_limits, '[\s,]+') AS part (text)
        WHERE a.autocluster_id = start_limits_of.autocluster
    )
    SELECT
        l.scope, l.name, l.starts, l.seconds, last.number,
        make_interval(secs => l.seconds) + (
            -- not joined, so that it is found by its whole key
            SELECT k.at
            FROM fetchwork.start_token AS k
            WHERE k.scope = l.scope AND k.name = l.name AND k.number = last.number - l.starts + 1
        )
    FROM named AS n
    JOIN fetchwork.start_limit AS l ON l.scope = n.scope AND l.name = n.name
    CROSS JOIN LATERAL (
        SELECT coalesce(max(t.number), 0) AS number
        FROM fetchwork.start_token AS t
        WHERE t.scope = l.scope AND t.name = l.name
    ) AS last;
END
$$;
