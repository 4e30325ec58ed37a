-- Asks the hosts of running jobs to stop them ('suspend') or to let them go on ('continue'). Returns of how
-- many: not of jobs that are stopped, run or end already. The wish stays with the run until it ends or the
-- next wish: the host stops the job again if the startd lets it go on. With gone_ok jobs are skipped whose
-- hosts can't do it. Errors: FWINV (such a host). The caller has locked the jobs. Locks: the runs.
CREATE OR REPLACE FUNCTION fetchwork.suspend_runs(
    clusters integer [],
    procs integer [],
    wish text,
    gone_ok boolean
)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    refused record;
    hosts integer[];
BEGIN
    IF NOT gone_ok THEN
        SELECT fetchwork.job_id(r.cluster_id, r.proc_id) AS job, h.name AS host
        INTO refused
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        JOIN fetchwork.run AS r ON r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
        JOIN fetchwork.host AS h ON h.host_id = r.host_id
        WHERE NOT h.signals_jobs
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'job % can''t be suspended: the agent of its host % may not signal jobs; '
                'allowed: to hold it', refused.job, quote_nullable(refused.host) USING ERRCODE = 'FWINV';
        END IF;
    END IF;
    WITH asked AS (
        UPDATE fetchwork.run AS r
        SET suspension = wish
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id), fetchwork.host AS h
        WHERE r.cluster_id = k.cluster_id
            AND r.proc_id = k.proc_id
            AND h.host_id = r.host_id
            AND h.signals_jobs
            AND r.state = 'running'
            AND r.end_requested IS NULL
            -- a wish that its host has not followed yet can be taken back
            AND r.suspension IS DISTINCT FROM wish
            AND (r.job_status = CASE wish WHEN 'suspend' THEN 2 ELSE 7 END OR r.suspension IS NOT NULL)
        RETURNING r.host_id
    )
    SELECT array_agg(a.host_id)
    INTO hosts
    FROM asked AS a;
    PERFORM fetchwork.tell_host(h.host_id)
    FROM (SELECT DISTINCT u.host_id FROM unnest(hosts) AS u (host_id)) AS h;
    RETURN coalesce(cardinality(hosts), 0);
END
$$;
