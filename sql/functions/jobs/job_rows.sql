-- Where the rows of these jobs are in "job", in no order; for statements about many jobs, as
-- "WHERE j.ctid = ANY (ctids)". The caller has locked the jobs: until it changes them, they stay there. Rows
-- that others may change meanwhile are no subject for this: an UPDATE by ctid passes over one that has moved.
CREATE OR REPLACE FUNCTION fetchwork.job_rows(clusters integer [], procs integer [])
RETURNS tid []
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
BEGIN ATOMIC
    SELECT coalesce(array_agg(named.ctid), '{}')
    FROM unnest(job_rows.clusters, job_rows.procs) AS k (cluster_id, proc_id)
    -- OFFSET 0: as in job_of
    CROSS JOIN LATERAL (
        SELECT j.ctid
        FROM fetchwork.job AS j
        WHERE j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
        OFFSET 0
    ) AS named;
END;
