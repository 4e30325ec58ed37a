-- The clusters of the scheduler universe that have a job in the queue. Ids only, of all owners: the views
-- decide whose jobs a reader sees. Uses an index, so that readers of DAGs do not pay for a million other
-- jobs.
CREATE OR REPLACE FUNCTION fetchwork.scheduler_clusters()
RETURNS TABLE (cluster_id integer)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.cluster_id
    FROM fetchwork.cluster AS c
    WHERE c.ad -> 'JobUniverse' = '7'
        AND EXISTS (SELECT FROM fetchwork.job AS j WHERE j.cluster_id = c.cluster_id)
    ORDER BY c.cluster_id;
END;
