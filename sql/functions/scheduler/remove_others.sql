-- Does what OtherJobRemoveRequirements of just removed clusters demands: removes the jobs of that DAG too, if
-- they are the same Owner's. So a DAG that is removed while it is held, or while its access point is away,
-- leaves no nodes behind. Locks: those late clusters, then those jobs, in the order of their ids.
CREATE OR REPLACE FUNCTION fetchwork.remove_others(clusters integer [], reason text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    other_clusters integer[];
    other_procs integer[];
    factories integer[];
BEGIN
    IF NOT EXISTS (
        SELECT FROM fetchwork.cluster AS c
        WHERE c.cluster_id = ANY (clusters) AND c.ad ? 'OtherJobRemoveRequirements'
    ) THEN
        RETURN;
    END IF;
    factories := ARRAY(
        SELECT f.cluster_id
        FROM fetchwork.cluster AS c
        JOIN fetchwork.cluster AS n ON n.ad ? 'DAGManJobId'
            AND n.ad -> 'DAGManJobId' = to_jsonb(fetchwork.dag_of_others(c.ad))
        JOIN fetchwork.factory AS f ON f.cluster_id = n.cluster_id
        WHERE c.cluster_id = ANY (clusters)
            AND c.ad ? 'OtherJobRemoveRequirements'
            AND f.owner = c.ad ->> 'Owner'
        ORDER BY f.cluster_id
        FOR UPDATE OF f
    );
    PERFORM fetchwork.act_on_factories('remove', factories, remove_others.reason, NULL);
    SELECT array_agg(o.cluster_id), array_agg(o.proc_id)
    INTO other_clusters, other_procs
    FROM (
        SELECT j.cluster_id, j.proc_id
        FROM fetchwork.cluster AS c
        JOIN fetchwork.cluster AS n ON n.ad ? 'DAGManJobId'
            AND n.ad -> 'DAGManJobId' = to_jsonb(fetchwork.dag_of_others(c.ad))
        JOIN fetchwork.job AS j ON j.cluster_id = n.cluster_id
        WHERE c.cluster_id = ANY (clusters)
            AND c.ad ? 'OtherJobRemoveRequirements'
            AND j.owner = c.ad ->> 'Owner'
            AND j.job_status <> 3
            AND j.cluster_id <> ALL (clusters)
        ORDER BY j.cluster_id, j.proc_id
        FOR UPDATE OF j
    ) AS o;
    IF other_clusters IS NOT NULL THEN
        PERFORM fetchwork.remove_jobs(other_clusters, other_procs, remove_others.reason);
    END IF;
    PERFORM fetchwork.materialize(f.cluster_id)
    FROM unnest(factories) AS f (cluster_id);
END
$$;
