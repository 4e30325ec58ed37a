-- Keeps the key that presigns s3:// and gs:// URLs of a cluster's jobs, in the transaction that submits the
-- cluster. No function or view returns the key; drop_files deletes it with the cluster's last job.
-- Errors: FWINV (a cluster of another transaction or with a key already; not a valid key).
CREATE OR REPLACE FUNCTION fetchwork.add_job_key(
    cluster integer,
    access_key_id text,
    secret text,
    session_token text DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM fetchwork.cluster AS c
        WHERE c.cluster_id = add_job_key.cluster
            AND c.submitted_by = fetchwork.asker()
            AND c.submitted_at = now()
    ) THEN
        RAISE EXCEPTION 'cluster % was not made in this transaction; allowed: add a key right after '
            'making it',
            cluster USING ERRCODE = 'FWINV';
    END IF;
    IF octet_length(access_key_id) NOT BETWEEN 1 AND 256
        OR octet_length(secret) NOT BETWEEN 1 AND 256
        OR octet_length(session_token) NOT BETWEEN 1 AND 8192
        OR concat(access_key_id, secret, session_token) !~ '^[!-~]+$'
        OR access_key_id IS NULL
        OR secret IS NULL
    THEN
        RAISE EXCEPTION 'the key is no key of a bucket; allowed: 1 to 256 characters of ASCII, no blank'
            USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.job_key (cluster_id, access_key_id, secret, session_token)
    VALUES (
        add_job_key.cluster, add_job_key.access_key_id, add_job_key.secret, add_job_key.session_token
    )
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cluster % has a key; allowed: one for all of its jobs',
            cluster USING ERRCODE = 'FWINV';
    END IF;
END
$$;
