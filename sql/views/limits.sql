-- Concurrency limits, and how much of each is in use.
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
    ) AS used
FROM fetchwork.concurrency_limit AS l;
