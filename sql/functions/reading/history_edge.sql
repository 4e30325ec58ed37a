-- When the n-th job before that moment left the queue, no row if there are not so many. For readers of the
-- view history that begin at its end (see job_edge).
CREATE OR REPLACE FUNCTION fetchwork.history_edge(before timestamptz, n integer)
RETURNS TABLE (completed_at timestamptz)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT h.completed_at
    FROM fetchwork.job_history AS h
    WHERE h.completed_at < history_edge.before
    ORDER BY h.completed_at DESC
    OFFSET history_edge.n - 1
    LIMIT 1;
END;
