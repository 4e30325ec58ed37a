-- The Owners that have checkpoints of jobs of this access point at a checkpoint_destination, needed by a run
-- or not (left_checkpoints), if the caller may name them. A call costs time by the number of Owners, not of
-- checkpoints. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.checkpoint_owners(access_point text)
RETURNS text[]
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_bitmapscan = off
BEGIN ATOMIC
    WITH RECURSIVE each AS (
        (
            SELECT s.owner
            FROM fetchwork.stored_checkpoint AS s
            WHERE s.access_point = checkpoint_owners.access_point
            ORDER BY s.owner
            LIMIT 1
        )
        UNION ALL
        SELECT (
                SELECT s.owner
                FROM fetchwork.stored_checkpoint AS s
                WHERE s.access_point = checkpoint_owners.access_point AND s.owner > e.owner
                ORDER BY s.owner
                LIMIT 1
            )
        FROM each AS e
        WHERE e.owner IS NOT NULL
    )
    SELECT coalesce(array_agg(e.owner), '{}')
    FROM each AS e
    CROSS JOIN (SELECT fetchwork.invoker() AS role) AS i
    WHERE e.owner IS NOT NULL
        AND (e.owner = ANY (fetchwork.own_owners(i.role)) OR fetchwork.serves_all(i.role));
END;
