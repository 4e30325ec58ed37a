-- The clusters with a job whose event log (UserLog) is this file, and perhaps others with none such (is_log_of tells for each job). Ids only, whoever the owner
-- is: what happened to them the view events shows to those who may see it. For readers of events by log; indexes on the expression make it a probe.
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
    SELECT j.cluster_id
    FROM fetchwork.job AS j
    WHERE j.ad ? 'UserLog' AND j.ad ->> 'UserLog' = log_clusters.path
    UNION
    SELECT h.cluster_id
    FROM fetchwork.job_history AS h
    WHERE h.ad ? 'UserLog' AND h.ad ->> 'UserLog' = log_clusters.path;
END;
