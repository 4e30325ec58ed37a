-- The cluster of the DAG that a job of the scheduler universe is a node of, if that DAG runs at the same
-- access point for the same owner. NULL otherwise, regardless of the job's own claims.
CREATE OR REPLACE FUNCTION fetchwork.dag_around(ad jsonb, owner text, access_point text)
RETURNS integer
LANGUAGE sql
STABLE
RETURN (
    SELECT r.cluster_id
    FROM fetchwork.run AS r
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
    WHERE dag_around.ad ? 'DAGManJobId'
        AND r.cluster_id = fetchwork.integer_of(dag_around.ad -> 'DAGManJobId')
        AND a.owner = dag_around.owner
        AND a.access_point = dag_around.access_point
    LIMIT 1
);
