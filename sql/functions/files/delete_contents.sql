-- Deletes the contents among ids that no job names; returns how many. A submitter that is about to name a
-- content holds a lock on it (the reference of job_file): locked contents are skipped, and a new statement
-- checks the others again before it deletes them. objects_over takes their objects in buckets.
-- Locks: the contents, without waiting.
CREATE OR REPLACE FUNCTION fetchwork.delete_contents(ids bigint [])
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    locked bigint[];
    deleted integer;
BEGIN
    SELECT array_agg(l.content_id)
    INTO locked
    FROM (
        SELECT c.content_id
        FROM fetchwork.content AS c
        WHERE c.content_id = ANY (ids)
        FOR UPDATE SKIP LOCKED
    ) AS l;
    WITH gone AS (
        DELETE FROM fetchwork.content AS c
        WHERE c.content_id = ANY (locked)
            AND NOT EXISTS (SELECT FROM fetchwork.job_file AS f WHERE f.content_id = c.content_id)
        RETURNING c.owner, c.size, c.bucket_id, c.object
    ),
    objects AS (
        INSERT INTO fetchwork.object_over (bucket_id, object, n)
        SELECT g.bucket_id, g.object, p.n
        FROM gone AS g
        CROSS JOIN LATERAL generate_series(0, (g.size - 1) / fetchwork.part_bytes()) AS p (n)
        WHERE g.bucket_id IS NOT NULL
    ),
    counted AS (
        INSERT INTO fetchwork.content_change (owner, bytes)
        SELECT g.owner, -sum(g.size)
        FROM gone AS g
        GROUP BY g.owner
    )
    SELECT count(*)
    INTO deleted
    FROM gone;
    RETURN deleted;
END
$$;
