-- "42.0" -> (42, 0); "42" -> (42, null), which names the whole cluster. Errors: FWINV (other texts).
CREATE OR REPLACE FUNCTION fetchwork.parse_job_id(job text, OUT cluster_id integer, OUT proc_id integer)
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF job IS NULL
        OR job !~ '^[0-9]{1,10}(\.[0-9]{1,10})?$'
        OR split_part(job, '.', 1)::bigint > 2147483647
        OR nullif(split_part(job, '.', 2), '')::bigint > 2147483647
    THEN
        RAISE EXCEPTION '% is not a job id; allowed: CLUSTER.PROC such as 42.0, or CLUSTER for all its jobs',
            quote_nullable(job) USING ERRCODE = 'FWINV';
    END IF;
    cluster_id := split_part(job, '.', 1)::integer;
    proc_id := nullif(split_part(job, '.', 2), '')::integer;
END
$$;
