-- The Owners whose jobs' ends wait until this access point delivers their outputs (awaited_outputs), if the
-- caller may name them. A call costs time by the number of Owners, not of their jobs. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.awaited_owners(access_point text)
RETURNS text[]
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_bitmapscan = off
BEGIN ATOMIC
    WITH RECURSIVE each AS (
        (
            SELECT b.owner
            FROM fetchwork.bringing AS b
            WHERE b.access_point = awaited_owners.access_point
            ORDER BY b.owner
            LIMIT 1
        )
        UNION ALL
        SELECT (
                SELECT b.owner
                FROM fetchwork.bringing AS b
                WHERE b.access_point = awaited_owners.access_point AND b.owner > e.owner
                ORDER BY b.owner
                LIMIT 1
            )
        FROM each AS e
        WHERE e.owner IS NOT NULL
    )
    SELECT coalesce(array_agg(e.owner), '{}')
    FROM each AS e
    CROSS JOIN (SELECT fetchwork.invoker() AS role) AS i
    WHERE e.owner IS NOT NULL
        AND (
            fetchwork.is_admin(i.role)
            OR e.owner = ANY (fetchwork.own_owners(i.role))
            OR fetchwork.serves_all(i.role)
        );
END;
