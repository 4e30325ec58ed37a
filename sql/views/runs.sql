-- Every run of every job, live and ended. The owner is compared outside of the union: PostgreSQL pushes a
-- reader's condition into the parts of a union, and there ahead of theirs, security_barrier or not.
CREATE OR REPLACE VIEW fetchwork.runs WITH (security_barrier) AS
SELECT u.*
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
        r.job_pid AS jobpid,
        NULL::integer AS exitcode,
        NULL::integer AS exitsignal,
        r.usage AS ad
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
        r.job_pid,
        fetchwork.integer_of(r.report -> 'ExitCode'),
        fetchwork.integer_of(r.report -> 'ExitSignal'),
        coalesce(r.usage, '{}') || coalesce(r.report, '{}')
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
