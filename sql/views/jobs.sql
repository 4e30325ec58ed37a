-- Jobs in the queue.
CREATE OR REPLACE VIEW fetchwork.jobs WITH (security_barrier) AS
SELECT
    j.cluster_id AS clusterid,
    j.proc_id AS procid,
    fetchwork.job_id(j.cluster_id, j.proc_id) AS jobid,
    j.owner,
    a.submitter,
    j.queue AS fetchworkqueue,
    j.job_status AS jobstatus,
    j.job_prio AS jobprio,
    extract(epoch FROM j.q_date)::bigint AS qdate,
    extract(epoch FROM j.status_at)::bigint AS enteredcurrentstatus,
    extract(epoch FROM j.first_start_at)::bigint AS jobstartdate,
    extract(epoch FROM j.last_start_at)::bigint AS jobcurrentstartdate,
    j.num_starts AS numjobstarts,
    j.num_completions AS numjobcompletions,
    j.num_holds AS numholds,
    j.num_not_started AS numnotstarted,
    j.num_evicted AS numevicted,
    j.num_lost AS numlost,
    j.hold_reason AS holdreason,
    j.hold_code AS holdreasoncode,
    j.hold_subcode AS holdreasonsubcode,
    j.last_reason AS lastreason,
    CASE WHEN j.job_status = 3 THEN j.last_reason END AS removereason,
    c.procs AS totalsubmitprocs,
    j.wall_s AS remotewallclocktime,
    j.user_cpu_s AS remoteusercpu,
    j.sys_cpu_s AS remotesyscpu,
    r.run_id AS runid,
    r.slot AS remotehost,
    j.autocluster_id AS autoclusterid,
    b.name AS jobbatchname,
    j.q_date AS q_at,
    j.status_at,
    j.not_before AS not_before_at,
    c.submitted_by,
    -- attributes of every ad, unless it sets them
    fetchwork.default_attributes() AS defaults,
    c.ad || j.ad AS ad,
    -- its parts: the common one of its cluster, and the job's own
    c.ad AS cluster_ad,
    j.ad AS own_ad,
    -- attributes of its life without a column; for a running job also its memory, the nodes of its DAG, the
    -- transfer under way, its last checkpoint, and the latest time at which it is killed if it is to end
    CASE
        WHEN j.job_status = 6 THEN j.facts || '{"TransferringOutput": true}'
        WHEN r.usage IS NULL AND r.transferring IS NULL AND r.transfer IS NULL AND r.signalled_at IS NULL
            THEN j.facts
        ELSE j.facts || coalesce(fetchwork.memory_use(r.usage), '{}')
            || coalesce(fetchwork.dag_counts(r.usage), '{}')
            || CASE r.transferring
                WHEN 'input' THEN '{"TransferringInput": true}'::jsonb
                WHEN 'output' THEN '{"TransferringOutput": true}'
                ELSE '{}'
            END
            || jsonb_strip_nulls(jsonb_build_object(
                'CheckpointNumber', r.transfer -> 'CheckpointNumber',
                'LastCkptTime', r.transfer -> 'LastCkptTime',
                'FetchWorkKillDate', CASE
                    WHEN r.signalled_at IS NOT NULL AND r.end_requested IS NOT NULL THEN ceil(
                        extract(epoch FROM r.signalled_at) + fetchwork.vacate_s(r.end_requested, c.ad || j.ad)
                    )::bigint
                END
            ))
    END AS facts
FROM fetchwork.job AS j
JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
JOIN fetchwork.autocluster AS a ON a.autocluster_id = j.autocluster_id
LEFT JOIN fetchwork.batch AS b ON b.batch_id = j.batch_id
LEFT JOIN fetchwork.run AS r ON r.run_id = j.run_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
