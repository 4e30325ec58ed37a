-- Makes the jobs that materialize_after did not: those of the factories that were looked at longest ago, so
-- that no factory waits for another's jobs. Returns how many. The leader calls it every second or two.
CREATE OR REPLACE FUNCTION fetchwork.materialize_due()
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    due integer;
    made integer := 0;
BEGIN
    FOR due IN
        WITH looked AS (
            UPDATE fetchwork.factory AS f
            SET looked_at = clock_timestamp()
            WHERE f.cluster_id IN (
                SELECT o.cluster_id
                FROM fetchwork.factory AS o
                WHERE o.paused NOT IN (-1, 1)
                ORDER BY o.looked_at
                LIMIT 50
                FOR UPDATE SKIP LOCKED
            )
            RETURNING f.cluster_id
        )
        SELECT l.cluster_id
        FROM looked AS l
    LOOP
        made := made + fetchwork.materialize(due);
    END LOOP;
    RETURN made;
END
$$;
