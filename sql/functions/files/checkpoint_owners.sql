-- The Owners, of those that the caller may name, of whom checkpoints of jobs of this access point are at
-- their checkpoint_destination, whether a run needs them or not (left_checkpoints). A call costs what these
-- are many, not what their checkpoints are. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.checkpoint_owners(access_point text)
RETURNS text[]
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
