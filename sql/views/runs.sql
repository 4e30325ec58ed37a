-- Every run of every job, live and ended; job_ad is the job's own ad, and costs only readers that select it.
-- The owner is compared outside of the union: PostgreSQL pushes a reader's condition into the parts of a
-- union, ahead of theirs, security_barrier or not.
CREATE OR REPLACE VIEW fetchwork.runs WITH (security_barrier) AS
SELECT
    u.*,
    (
        SELECT
            fetchwork.default_attributes() || c.ad || k.ad || jsonb_strip_nulls(jsonb_build_object(
                'User', u.owner || '@' || current_database(),
                'GlobalJobId', format(
                    '%s#%s#%s', current_database(), u.jobid, extract(epoch FROM k.q_date)::bigint
                ),
                'QDate', extract(epoch FROM k.q_date)::bigint,
                'JobPrio', k.job_prio,
                'FetchWorkQueue', k.queue,
                'TotalSubmitProcs', c.procs,
                -- as at the run's end: the job's own ad has the job's status
                'JobStatus', CASE WHEN u.started_at IS NULL THEN 1 ELSE 2 END,
                'LastJobStatus', 1,
                'CurrentHosts', 1,
                'NumJobCompletions', k.num_completions,
                'LastMatchTime', extract(epoch FROM u.claimed_at)::bigint,
                'EnteredCurrentStatus', extract(
                    epoch FROM coalesce(u.ended_at, u.started_at, u.claimed_at)
                )::bigint,
                'RemoteWallClockTime', extract(epoch FROM u.ended_at - u.started_at),
                'EpochAdType', 'EPOCH',
                'RunInstanceID', tries.started - 1,
                'NumShadowStarts', tries.started,
                'NumJobStarts', tries.started,
                'NumJobMatches', tries.started,
                'JobRunCount', tries.started
            ))
        FROM fetchwork.cluster AS c
        CROSS JOIN (
            SELECT count(*) AS started
            FROM (
                SELECT h.started_at
                FROM fetchwork.run_history AS h
                WHERE h.cluster_id = u.clusterid AND h.proc_id = u.procid AND h.run_id < u.runid
                UNION ALL
                SELECT u.started_at
            ) AS try
            WHERE try.started_at IS NOT NULL
        ) AS tries
        CROSS JOIN (
            SELECT j.*
            FROM fetchwork.known_job AS j
            WHERE j.cluster_id = u.clusterid AND j.proc_id = u.procid
            LIMIT 1
        ) AS k
        WHERE c.cluster_id = u.clusterid
    ) AS job_ad
FROM (
    SELECT
        r.run_id AS runid,
        r.cluster_id AS clusterid,
        r.proc_id AS procid,
        fetchwork.job_id(r.cluster_id, r.proc_id) AS jobid,
        a.owner,
        h.name AS host,
        r.slot AS remotehost,
        r.state::text AS state,
        NULL::text AS outcome,
        r.end_reason AS reason,
        r.claimed_at,
        r.accepted_at,
        r.started_at,
        NULL::timestamptz AS ended_at,
        r.contact_at,
        r.deadline AS deadline_at,
        r.end_requested,
        r.chain,
        r.job_pid AS jobpid,
        NULL::integer AS exitcode,
        NULL::integer AS exitsignal,
        CASE WHEN r.transfer IS NULL THEN r.usage ELSE coalesce(r.usage, '{}') || r.transfer END AS ad
    FROM fetchwork.run AS r
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
    JOIN fetchwork.host AS h ON h.host_id = r.host_id
    UNION ALL
    SELECT
        r.run_id,
        r.cluster_id,
        r.proc_id,
        fetchwork.job_id(r.cluster_id, r.proc_id),
        r.owner,
        h.name,
        r.slot,
        r.state::text,
        r.outcome::text,
        r.reason,
        r.claimed_at,
        r.accepted_at,
        r.started_at,
        r.ended_at,
        r.ended_at,
        NULL,
        NULL,
        r.chain,
        r.job_pid,
        fetchwork.integer_of(r.report -> 'ExitCode'),
        fetchwork.integer_of(r.report -> 'ExitSignal'),
        coalesce(r.usage, '{}') || coalesce(r.report, '{}') || coalesce(r.transfer, '{}')
            || CASE
                WHEN r.late_report IS NULL THEN '{}'
                ELSE jsonb_build_object('LateReport', r.late_report)
            END
            || CASE WHEN r.output IS NULL THEN '{}' ELSE jsonb_build_object('Output', r.output) END
    FROM fetchwork.run_history AS r
    LEFT JOIN fetchwork.host AS h ON h.host_id = r.host_id
) AS u
WHERE (SELECT fetchwork.sees_all(current_user))
    OR u.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
