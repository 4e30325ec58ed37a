-- submit_cluster for clients: procs is one JSON array, which PostgreSQL and the client read faster than an
-- array of JSON. Errors, locks: as submit_cluster.
CREATE OR REPLACE FUNCTION fetchwork.submit_ads(
    common jsonb,
    procs jsonb,
    cluster integer DEFAULT NULL,
    key text DEFAULT NULL
)
RETURNS integer
LANGUAGE sql
BEGIN ATOMIC
    SELECT fetchwork.submit_cluster(
        submit_ads.common,
        ARRAY(SELECT p.ad FROM jsonb_array_elements(submit_ads.procs) AS p (ad)),
        submit_ads.cluster,
        submit_ads.key
    );
END;
