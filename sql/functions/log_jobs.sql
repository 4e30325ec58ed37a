-- The jobs whose event log (UserLog) is this file: whole clusters (proc_id NULL) whose jobs have it in common, and single ones. Ids only, whoever the
-- owner is: what happened to them the view events shows to those who may see it. Indexes on the expression make it a probe (migration 0003).
CREATE OR REPLACE FUNCTION fetchwork.log_jobs(path text)
RETURNS TABLE (cluster_id integer, proc_id integer)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.cluster_id, NULL::integer
    FROM fetchwork.cluster AS c
    WHERE c.ad ? 'UserLog' AND c.ad ->> 'UserLog' = log_jobs.path
    UNION ALL
    SELECT j.cluster_id, j.proc_id
    FROM fetchwork.job AS j
    WHERE j.ad ? 'UserLog' AND j.ad ->> 'UserLog' = log_jobs.path
    UNION ALL
    SELECT h.cluster_id, h.proc_id
    FROM fetchwork.job_history AS h
    WHERE h.ad ? 'UserLog' AND h.ad ->> 'UserLog' = log_jobs.path;
END;
