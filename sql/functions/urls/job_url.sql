-- The presigned URL with which a job's host may GET or PUT an object for an hour, by the key of the job's
-- cluster (add_job_key). NULL for a URL of another scheme, and for a job without a key: then a plugin must
-- know the scheme. Errors: FWINV (object_of_url).
CREATE OR REPLACE FUNCTION fetchwork.job_url(method text, url text, cluster integer, ad jsonb)
RETURNS text
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT fetchwork.presigned_url(
            job_url.method, o.origin, o.path, o.region, k.access_key_id, k.secret, k.session_token
        )
    FROM fetchwork.job_key AS k
    CROSS JOIN LATERAL fetchwork.object_of_url(job_url.url, job_url.ad ->> 'AWSRegion') AS o
    WHERE k.cluster_id = job_url.cluster AND job_url.url ~* '^(s3|gs)://';
END;
