-- Whether this file is the event log (UserLog, or the nodes log of its DAG) of a current or past job, for
-- jobs of the clusters that log_clusters returns. Every role may call it: it confirms a path and reveals
-- none.
CREATE OR REPLACE FUNCTION fetchwork.is_log_of(path text, cluster integer, proc integer)
RETURNS boolean
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce(c.ad ->> 'DAGManNodesLog' = is_log_of.path, false) OR (c.ad || coalesce(
        (
            SELECT j.ad
            FROM fetchwork.known_job AS j
            WHERE j.cluster_id = c.cluster_id AND j.proc_id = is_log_of.proc
            LIMIT 1
        ),
        '{}'
    )) ->> 'UserLog' IS NOT DISTINCT FROM is_log_of.path
    FROM fetchwork.cluster AS c
    WHERE c.cluster_id = is_log_of.cluster;
END;
