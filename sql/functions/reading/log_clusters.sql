-- The clusters with a job whose event log (UserLog, or the nodes log of its DAG) is this file, and perhaps
-- others (is_log_of decides for each job). Ids only, of all owners: the view events decides whose events a
-- reader sees. Uses indexes on the expressions.
CREATE OR REPLACE FUNCTION fetchwork.log_clusters(path text)
RETURNS SETOF integer
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.cluster_id
    FROM fetchwork.cluster AS c
    WHERE c.ad ? 'UserLog' AND c.ad ->> 'UserLog' = log_clusters.path
    UNION
    SELECT c.cluster_id
    FROM fetchwork.cluster AS c
    WHERE c.ad ? 'DAGManNodesLog' AND c.ad ->> 'DAGManNodesLog' = log_clusters.path
    UNION
    SELECT j.cluster_id
    FROM fetchwork.job AS j
    WHERE j.ad ? 'UserLog' AND j.ad ->> 'UserLog' = log_clusters.path
    UNION
    SELECT h.cluster_id
    FROM fetchwork.job_history AS h
    WHERE h.ad ? 'UserLog' AND h.ad ->> 'UserLog' = log_clusters.path;
END;
