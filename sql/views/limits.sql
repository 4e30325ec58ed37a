-- Limits: the concurrency limits, with the amount of each that is in use, and the limits on starts (scope
-- tells whose, see functions/settings/set_starts.sql), with the number of starts that count now.
CREATE OR REPLACE VIEW fetchwork.limits AS
SELECT
    l.name,
    l.maximum,
    (
        SELECT coalesce(sum(coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1)), 0)
        FROM fetchwork.run AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
            AND a.concurrency_limits IS NOT NULL
        CROSS JOIN LATERAL regexp_split_to_table(a.concurrency_limits, '[\s,]+') AS part (text)
        WHERE split_part(part.text, ':', 1) = l.name
    ) AS used,
    'limit' AS scope,
    NULL::integer AS maxstarts,
    NULL::double precision AS startsseconds,
    NULL::bigint AS started
FROM fetchwork.concurrency_limit AS l
UNION ALL
SELECT
    s.name,
    NULL::double precision,
    NULL::double precision,
    s.scope,
    s.starts,
    s.seconds,
    (
        SELECT count(*)
        FROM fetchwork.start_token AS t
        WHERE t.scope = s.scope AND t.name = s.name
            AND t.at > clock_timestamp() - make_interval(secs => s.seconds)
    )
FROM fetchwork.start_limit AS s;
