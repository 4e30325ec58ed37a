-- The ctids of these jobs' rows in "job", in no order, for statements about many jobs: "WHERE j.ctid = ANY
-- (ctids)". The caller has locked the jobs, so the rows stay there until it changes them. Not for rows that
-- others may change meanwhile: an UPDATE by ctid skips a row that has moved.
CREATE OR REPLACE FUNCTION fetchwork.job_rows(clusters integer [], procs integer [])
RETURNS tid []
LANGUAGE sql
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
