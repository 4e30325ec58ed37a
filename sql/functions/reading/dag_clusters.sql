-- The clusters of the nodes of some DAGs, each with its DAG: those that have a job of an Owner in the queue.
-- What a job says of its DAG is its submitter's word, so a reader asks for those of the DAG's own Owner; it
-- gets ids only, and the views decide who sees whose jobs.
-- For readers of DAGs; an index on the expression makes it a probe for each DAG.
CREATE OR REPLACE FUNCTION fetchwork.dag_clusters(dags integer [], owner text)
RETURNS TABLE (dag integer, cluster_id integer)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT d.dag, c.cluster_id
    FROM unnest(dag_clusters.dags) AS d (dag)
    JOIN fetchwork.cluster AS c ON c.ad ? 'DAGManJobId' AND c.ad -> 'DAGManJobId' = to_jsonb(d.dag)
    WHERE EXISTS (
        SELECT FROM fetchwork.job AS j
        WHERE j.cluster_id = c.cluster_id AND j.owner = dag_clusters.owner
    );
END;
