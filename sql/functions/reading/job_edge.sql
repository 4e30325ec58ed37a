-- The id of the n-th job in the queue behind (cluster, proc); no row if there are fewer. For readers of the
-- view jobs that go through a long queue piece by piece: a view that hides other users' rows can't be read in
-- order by its index, but a range of it can. Returns ids only, of all owners.
CREATE OR REPLACE FUNCTION fetchwork.job_edge(cluster integer, proc integer, n integer)
RETURNS TABLE (clusterid integer, procid integer)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT j.cluster_id, j.proc_id
    FROM fetchwork.job AS j
    WHERE (j.cluster_id, j.proc_id) > (job_edge.cluster, job_edge.proc)
    ORDER BY j.cluster_id, j.proc_id
    OFFSET job_edge.n - 1
    LIMIT 1;
END;
