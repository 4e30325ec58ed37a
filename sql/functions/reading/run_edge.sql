-- The id of the n-th run before "before", live or ended; no row if there are fewer. For readers of the view
-- runs that begin at its end (see job_edge).
CREATE OR REPLACE FUNCTION fetchwork.run_edge(before bigint, n integer)
RETURNS TABLE (runid bigint)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT r.run_id
    FROM (
        SELECT l.run_id
        FROM fetchwork.run AS l
        UNION ALL
        SELECT h.run_id
        FROM fetchwork.run_history AS h
    ) AS r
    WHERE r.run_id < run_edge.before
    ORDER BY r.run_id DESC
    OFFSET run_edge.n - 1
    LIMIT 1;
END;
