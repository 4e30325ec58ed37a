-- Puts many jobs into the queue as one cluster and returns their ids in the order of the ads: all jobs, or
-- none of them.
--
--     SELECT * FROM fetchwork.submit_many(
--         ARRAY['{"Cmd": "/bin/true", "Owner": "alice"}', '{"Cmd": "/bin/false", "Owner": "bob"}']::jsonb[]
--     );
--
-- common has the attributes of every ad that does not set its own. key, errors: as for submit_cluster.
CREATE OR REPLACE FUNCTION fetchwork.submit_many(
    ads jsonb [],
    common jsonb DEFAULT '{}',
    key text DEFAULT NULL
)
RETURNS TABLE (cluster_id integer, proc_id integer, job_id text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_cluster integer := fetchwork.submit_cluster(common, ads, NULL, key);
BEGIN
    RETURN QUERY
    SELECT new_cluster, n - 1, fetchwork.job_id(new_cluster, n - 1)
    FROM generate_series(1, cardinality(ads)) AS n;
END
$$;
