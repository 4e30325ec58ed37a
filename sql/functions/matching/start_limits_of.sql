-- The limits on starts that claims for these autoclusters have to keep: those of their queues, their
-- owners, their accounting groups and each above these, and the concurrency limits that they name; a row
-- for each autocluster and limit. spent is the number of the last start under the limit; 0: none. free_at
-- is the time from which the limit allows the next start; NULL: at any time. It depends on the one token
-- that is as many starts back as the limit allows, so its cost does not grow with the limit. room is the
-- number of starts that the limit allows now, up to most.
CREATE OR REPLACE FUNCTION fetchwork.start_limits_of(autoclusters integer [], most integer DEFAULT 1)
RETURNS TABLE (
    autocluster_id integer,
    scope text,
    name text,
    starts integer,
    seconds double precision,
    spent bigint,
    free_at timestamptz,
    room bigint
)
LANGUAGE plpgsql
STABLE
-- planning for the values of each call would take longer than the call
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.start_limit) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.autocluster_id, a.queue, a.owner, a.submitter, a.concurrency_limits
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = ANY (start_limits_of.autoclusters)
    ),
    named AS (
        SELECT a.autocluster_id, 'queue' AS scope, a.queue AS name
        FROM asked AS a
        UNION ALL
        SELECT a.autocluster_id, 'owner', a.owner
        FROM asked AS a
        UNION ALL
        SELECT a.autocluster_id, 'group', p.name
        FROM asked AS a
        CROSS JOIN LATERAL fetchwork.group_names(a.submitter) AS p
        WHERE EXISTS (SELECT FROM fetchwork.start_limit AS l WHERE l.scope = 'group')
        UNION ALL
        -- a job may name a limit twice
        SELECT DISTINCT a.autocluster_id, 'limit', n.name
        FROM asked AS a
        CROSS JOIN LATERAL fetchwork.named_limits(a.concurrency_limits) AS n
    ),
    held AS MATERIALIZED (
        SELECT n.autocluster_id, l.*
        FROM named AS n
        JOIN fetchwork.start_limit AS l ON l.scope = n.scope AND l.name = n.name
    ),
    -- each limit once: autoclusters are many
    known AS MATERIALIZED (
        SELECT l.*, last.number
        FROM (SELECT DISTINCT h.scope, h.name, h.starts, h.seconds FROM held AS h) AS l
        CROSS JOIN LATERAL (
            SELECT coalesce(max(t.number), 0) AS number
            FROM fetchwork.start_token AS t
            WHERE t.scope = l.scope AND t.name = l.name
        ) AS last
    )
    SELECT
        h.autocluster_id, k.scope, k.name, k.starts, k.seconds, k.number,
        make_interval(secs => k.seconds) + (
            -- not joined, so that it is found by its whole key
            SELECT t.at
            FROM fetchwork.start_token AS t
            WHERE t.scope = k.scope AND t.name = k.name AND t.number = k.number - k.starts + 1
        ),
        -- the first token that still counts says how many before it do not
        coalesce(
            (
                SELECT t.number - (k.number - k.starts + 1)
                FROM fetchwork.start_token AS t
                WHERE t.scope = k.scope AND t.name = k.name
                    AND t.number > k.number - k.starts
                    AND t.number <= k.number - k.starts + start_limits_of.most
                    AND t.at > clock_timestamp() - make_interval(secs => k.seconds)
                ORDER BY t.number
                LIMIT 1
            ),
            least(start_limits_of.most, k.starts)
        )
    FROM held AS h
    JOIN known AS k ON k.scope = h.scope AND k.name = h.name;
END
$$;
