-- Jobs that have ended.
CREATE OR REPLACE VIEW fetchwork.history WITH (security_barrier) AS
SELECT
    j.cluster_id AS clusterid,
    j.proc_id AS procid,
    fetchwork.job_id(j.cluster_id, j.proc_id) AS jobid,
    j.owner,
    -- the charged submitter; the autocluster and the batch may be forgotten
    -- (functions/maintenance/forget.sql)
    coalesce(
        nullif(
            CASE
                WHEN j.ad ? 'AccountingGroup' THEN j.ad ->> 'AccountingGroup'
                ELSE c.ad ->> 'AccountingGroup'
            END,
            ''
        ),
        j.owner
    ) AS submitter,
    j.queue AS fetchworkqueue,
    j.job_status AS jobstatus,
    j.job_prio AS jobprio,
    extract(epoch FROM j.q_date)::bigint AS qdate,
    extract(epoch FROM j.completed_at)::bigint AS enteredcurrentstatus,
    CASE WHEN j.job_status = 4 THEN extract(epoch FROM j.completed_at)::bigint END AS completiondate,
    extract(epoch FROM j.first_start_at)::bigint AS jobstartdate,
    extract(epoch FROM j.last_start_at)::bigint AS jobcurrentstartdate,
    coalesce(j.exit_by_signal, false) AS exitbysignal,
    j.exit_code AS exitcode,
    j.exit_signal AS exitsignal,
    j.num_starts AS numjobstarts,
    j.num_completions AS numjobcompletions,
    j.num_holds AS numholds,
    j.num_not_started AS numnotstarted,
    j.num_evicted AS numevicted,
    j.num_lost AS numlost,
    j.last_reason AS lastreason,
    CASE WHEN j.job_status = 3 THEN j.last_reason END AS removereason,
    c.procs AS totalsubmitprocs,
    j.wall_s AS remotewallclocktime,
    j.user_cpu_s AS remoteusercpu,
    j.sys_cpu_s AS remotesyscpu,
    j.run_id AS runid,
    coalesce(j.slot, j.facts ->> 'LastRemoteHost') AS lastremotehost,
    j.autocluster_id AS autoclusterid,
    coalesce(b.name, j.ad ->> 'JobBatchName', c.ad ->> 'JobBatchName') AS jobbatchname,
    j.q_date AS q_at,
    j.completed_at,
    c.submitted_by,
    -- attributes of every ad, unless it sets them
    fetchwork.default_attributes() AS defaults,
    c.ad || j.ad AS ad,
    -- its parts: the common one of its cluster, and the job's own
    c.ad AS cluster_ad,
    j.ad AS own_ad,
    j.facts
FROM fetchwork.job_history AS j
JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
LEFT JOIN fetchwork.batch AS b ON b.batch_id = j.batch_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
