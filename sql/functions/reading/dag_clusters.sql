-- The clusters of the nodes of some DAGs, each with its DAG, that have a job of this Owner in the queue; with
-- ended also those whose jobs have left it. A job's DAG is only its submitter's claim, so a reader passes the
-- DAG's own Owner; it gets ids only, and the views decide whose jobs it sees. Uses an index on the
-- expression, one search for each DAG.
CREATE OR REPLACE FUNCTION fetchwork.dag_clusters(dags integer [], owner text, ended boolean DEFAULT false)
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
    ) OR (
        dag_clusters.ended AND EXISTS (
            SELECT FROM fetchwork.job_history AS h
            WHERE h.cluster_id = c.cluster_id AND h.owner = dag_clusters.owner
        )
    );
END;
