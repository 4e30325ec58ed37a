-- Clusters, as long as a job of them is in queue or history: the common part of their jobs' ads.
CREATE OR REPLACE VIEW fetchwork.clusters WITH (security_barrier) AS
SELECT
    c.cluster_id AS clusterid,
    c.ad ->> 'Owner' AS owner,
    c.ad
FROM fetchwork.cluster AS c
WHERE (SELECT fetchwork.sees_all(current_user))
    OR c.ad ->> 'Owner' = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
