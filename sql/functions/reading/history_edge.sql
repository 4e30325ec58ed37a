-- The n-th ended job before (before, cluster, proc), by the time when it left the queue and its id; no row if
-- there are fewer. For readers of the view history that begin at its end (see job_edge).
CREATE OR REPLACE FUNCTION fetchwork.history_edge(
    before timestamptz,
    cluster integer,
    proc integer,
    n integer
)
RETURNS TABLE (completed_at timestamptz, clusterid integer, procid integer)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT h.completed_at, h.cluster_id, h.proc_id
    FROM fetchwork.job_history AS h
    WHERE (h.completed_at, h.cluster_id, h.proc_id)
        < (history_edge.before, history_edge.cluster, history_edge.proc)
    ORDER BY h.completed_at DESC, h.cluster_id DESC, h.proc_id DESC
    OFFSET history_edge.n - 1
    LIMIT 1;
END;
