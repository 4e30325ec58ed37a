-- What people read. Columns have HTCondor's attribute names and hold HTCondor's values (times are epoch seconds, as in an ad); a column
-- that ends in _at is a timestamptz. PostgreSQL folds unquoted names, so they are written as HTCondor writes them.
--
-- Everyone may select; whose rows one sees is decided here: readers, agents and administrators see all, others those of the Owners that they may
-- name. The two questions are asked once a query, not once a row; so the condition is written out in each view: a function that asked them would be called
-- for every row (what contains a subquery is not inlined), at 25 times the cost. security_barrier: no function of the reader's sees a row before that.
-- Tokens are in no view.

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
    c.ad || j.ad AS ad
FROM fetchwork.job AS j
JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
JOIN fetchwork.autocluster AS a ON a.autocluster_id = j.autocluster_id
LEFT JOIN fetchwork.batch AS b ON b.batch_id = j.batch_id
LEFT JOIN fetchwork.run AS r ON r.run_id = j.run_id
WHERE (SELECT fetchwork.sees_all(current_user)) OR j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

CREATE OR REPLACE VIEW fetchwork.history WITH (security_barrier) AS
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
    extract(epoch FROM j.completed_at)::bigint AS enteredcurrentstatus,
    CASE WHEN j.job_status = 4 THEN extract(epoch FROM j.completed_at)::bigint ELSE 0 END AS completiondate,
    extract(epoch FROM j.first_start_at)::bigint AS jobstartdate,
    extract(epoch FROM j.last_start_at)::bigint AS jobcurrentstartdate,
    j.exit_by_signal AS exitbysignal,
    j.exit_code AS exitcode,
    j.exit_signal AS exitsignal,
    j.num_starts AS numjobstarts,
    j.num_completions AS numjobcompletions,
    j.num_holds AS numholds,
    j.num_not_started AS numnotstarted,
    j.num_evicted AS numevicted,
    j.num_lost AS numlost,
    j.last_reason AS lastreason,
    j.wall_s AS remotewallclocktime,
    j.user_cpu_s AS remoteusercpu,
    j.sys_cpu_s AS remotesyscpu,
    j.run_id AS runid,
    j.slot AS lastremotehost,
    j.autocluster_id AS autoclusterid,
    b.name AS jobbatchname,
    j.q_date AS q_at,
    j.completed_at,
    c.submitted_by,
    c.ad || j.ad AS ad
FROM fetchwork.job_history AS j
JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
JOIN fetchwork.autocluster AS a ON a.autocluster_id = j.autocluster_id
LEFT JOIN fetchwork.batch AS b ON b.batch_id = j.batch_id
WHERE (SELECT fetchwork.sees_all(current_user)) OR j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

-- Every try at every job: the live ones and the ended ones. Whose they are is asked outside of the union: PostgreSQL pushes a reader's condition into
-- the parts of a union and there ahead of theirs, security_barrier or not.
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
        a.owner,
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
            || CASE WHEN r.late_report IS NULL THEN '{}' ELSE jsonb_build_object('LateReport', r.late_report) END
            || CASE WHEN r.output IS NULL THEN '{}' ELSE jsonb_build_object('Output', r.output) END
    FROM fetchwork.run_history AS r
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
    LEFT JOIN fetchwork.host AS h ON h.host_id = r.host_id
) AS u
WHERE (SELECT fetchwork.sees_all(current_user)) OR u.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

CREATE OR REPLACE VIEW fetchwork.events WITH (security_barrier) AS
SELECT
    e.xid,
    e.event_id AS eventid,
    e.event_type AS eventtypenumber,
    e.cluster_id AS clusterid,
    e.proc_id AS procid,
    e.run_id AS runid,
    e.at AS event_at,
    e.info
FROM fetchwork.event AS e
WHERE (SELECT fetchwork.sees_all(current_user))
    OR EXISTS (
        SELECT FROM fetchwork.job AS j
        WHERE j.cluster_id = e.cluster_id AND j.proc_id = e.proc_id AND j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
    )
    OR EXISTS (
        SELECT FROM fetchwork.job_history AS j
        WHERE j.cluster_id = e.cluster_id AND j.proc_id = e.proc_id AND j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
    );

-- How far the events are kept: a cursor before this one has missed some.
CREATE OR REPLACE VIEW fetchwork.events_kept AS
SELECT f.xid, f.event_id AS eventid
FROM fetchwork.event_floor AS f;

CREATE OR REPLACE VIEW fetchwork.slots AS
SELECT
    s.name,
    h.name AS machine,
    s.state,
    s.activity,
    s.slot_type AS slottype,
    s.cpus,
    s.memory_mib AS memory,
    s.disk_kib AS disk,
    s.gpus,
    s.last_fetch_at,
    s.last_answer,
    r.run_id AS runid,
    CASE WHEN (SELECT fetchwork.sees_all(current_user)) OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []) THEN fetchwork.job_id(r.cluster_id, r.proc_id) END AS jobid,
    CASE WHEN (SELECT fetchwork.sees_all(current_user)) OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []) THEN a.owner END AS remoteowner,
    CASE
        WHEN (SELECT fetchwork.sees_all(current_user)) THEN s.ad
        ELSE s.ad - ARRAY['RemoteOwner', 'RemoteUser', 'RemoteGroup', 'RemoteNegotiatingGroup', 'AccountingGroup', 'JobId', 'GlobalJobId', 'ClientMachine',
            'PublicClaimId', 'PublicClaimIds', 'ChildRemoteOwner', 'ChildRemoteUser', 'ChildAccountingGroup', 'ChildJobId', 'ChildGlobalJobId']
    END AS ad,
    s.queues AS fetchworkqueues
FROM fetchwork.slot AS s
JOIN fetchwork.host AS h ON h.host_id = s.host_id
LEFT JOIN fetchwork.run AS r ON r.host_id = s.host_id AND r.slot = s.name
LEFT JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id;

-- Which slots have refused which kinds of jobs, and for how long they are not offered them.
CREATE OR REPLACE VIEW fetchwork.rests WITH (security_barrier) AS
SELECT h.name AS machine, t.slot AS name, t.autocluster_id AS autoclusterid, t.refusals, t.rest_until AS rest_until_at
FROM fetchwork.slot_rest AS t
JOIN fetchwork.host AS h ON h.host_id = t.host_id
JOIN fetchwork.autocluster AS a ON a.autocluster_id = t.autocluster_id
WHERE (SELECT fetchwork.sees_all(current_user)) OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

CREATE OR REPLACE VIEW fetchwork.hosts AS
SELECT
    h.host_id AS hostid,
    h.name AS machine,
    h.agent_version,
    h.seen_at,
    h.lease_until AS lease_until_at,
    h.agent_version IS NOT NULL AND h.lease_until >= now() AS alive,
    (SELECT count(*) FROM fetchwork.run AS r WHERE r.host_id = h.host_id) AS runs,
    h.bad_starts,
    h.bad_reason,
    h.black_hole_since AS black_hole_since_at,
    h.next_probe_at
FROM fetchwork.host AS h;

-- Counts by autocluster, from the folded counts, the changes since, and the live runs: as many rows as kinds of jobs.
CREATE OR REPLACE VIEW fetchwork.totals WITH (security_barrier) AS
WITH counted AS (
    SELECT t.autocluster_id, t.batch_id, t.jobs, t.held, t.completed, t.removed FROM fetchwork.tally AS t
    UNION ALL
    SELECT c.autocluster_id, coalesce(c.batch_id, 0), c.jobs, c.held, c.completed, c.removed FROM fetchwork.tally_change AS c
),
summed AS (
    SELECT c.autocluster_id, sum(c.jobs) AS jobs, sum(c.held) AS held, sum(c.completed) AS completed, sum(c.removed) AS removed
    FROM counted AS c
    GROUP BY c.autocluster_id
),
live AS (
    SELECT r.autocluster_id,
        count(*) FILTER (WHERE r.job_status = 2) AS running,
        count(*) FILTER (WHERE r.job_status = 7) AS suspended,
        count(*) FILTER (WHERE r.job_status = 3) AS ending,
        count(*) FILTER (WHERE r.state <> 'running') AS offered
    FROM fetchwork.run AS r
    GROUP BY r.autocluster_id
)
SELECT
    s.autocluster_id AS autoclusterid,
    a.owner,
    a.submitter,
    a.queue AS fetchworkqueue,
    s.jobs,
    s.jobs - s.held - coalesce(l.running, 0) - coalesce(l.suspended, 0) - coalesce(l.ending, 0) AS idle,
    coalesce(l.running, 0) AS running,
    s.held,
    coalesce(l.suspended, 0) AS suspended,
    coalesce(l.ending, 0) AS ending,
    coalesce(l.offered, 0) AS offered,
    s.completed,
    s.removed
FROM summed AS s
JOIN fetchwork.autocluster AS a ON a.autocluster_id = s.autocluster_id
LEFT JOIN live AS l ON l.autocluster_id = s.autocluster_id
WHERE (SELECT fetchwork.sees_all(current_user)) OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

-- The same by named batch (JobBatchName); a job without one is in none.
CREATE OR REPLACE VIEW fetchwork.batches WITH (security_barrier) AS
WITH counted AS (
    SELECT t.batch_id, t.jobs, t.held, t.completed, t.removed FROM fetchwork.tally AS t WHERE t.batch_id <> 0
    UNION ALL
    SELECT c.batch_id, c.jobs, c.held, c.completed, c.removed FROM fetchwork.tally_change AS c WHERE c.batch_id IS NOT NULL
),
summed AS (
    SELECT c.batch_id, sum(c.jobs) AS jobs, sum(c.held) AS held, sum(c.completed) AS completed, sum(c.removed) AS removed
    FROM counted AS c
    GROUP BY c.batch_id
),
live AS (
    SELECT j.batch_id, count(*) FILTER (WHERE j.job_status = 2) AS running, count(*) FILTER (WHERE j.job_status = 7) AS suspended, count(*) FILTER (WHERE j.job_status = 3) AS ending
    FROM fetchwork.job AS j
    WHERE j.run_id IS NOT NULL AND j.batch_id IS NOT NULL
    GROUP BY j.batch_id
)
SELECT
    b.owner,
    b.name AS jobbatchname,
    s.jobs,
    s.jobs - s.held - coalesce(l.running, 0) - coalesce(l.suspended, 0) - coalesce(l.ending, 0) AS idle,
    coalesce(l.running, 0) AS running,
    s.held,
    coalesce(l.suspended, 0) AS suspended,
    coalesce(l.ending, 0) AS ending,
    s.completed,
    s.removed
FROM summed AS s
JOIN fetchwork.batch AS b ON b.batch_id = s.batch_id
LEFT JOIN live AS l ON l.batch_id = s.batch_id
WHERE (SELECT fetchwork.sees_all(current_user)) OR b.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

CREATE OR REPLACE VIEW fetchwork.autoclusters WITH (security_barrier) AS
SELECT
    a.autocluster_id AS autoclusterid,
    a.owner,
    a.submitter,
    a.queue AS fetchworkqueue,
    a.request_cpus AS requestcpus,
    a.request_memory_mib AS requestmemory,
    a.request_disk_kib AS requestdisk,
    a.request_gpus AS requestgpus,
    a.concurrency_limits AS concurrencylimits,
    a.ad
FROM fetchwork.autocluster AS a
WHERE (SELECT fetchwork.sees_all(current_user)) OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);

-- condor_userprio: who uses how much, and who is next.
CREATE OR REPLACE VIEW fetchwork.submitters AS
SELECT
    s.submitter AS name,
    s.prio_factor AS priorityfactor,
    s.usage AS weightedusage,
    s.real_prio AS realpriority,
    s.effective_prio AS priority,
    s.running AS runningjobs,
    t.max_running AS maxrunning,
    t.total_usage AS accumulatedusage
FROM fetchwork.shares() AS s
JOIN fetchwork.submitter AS t ON t.name = s.submitter;

CREATE OR REPLACE VIEW fetchwork.queues AS
SELECT q.name, q.paused, q.draining, q.max_running AS maxrunning, q.preempt_ratio AS preemptratio, q.preempt_prio AS preemptprio
FROM fetchwork.queue AS q;

CREATE OR REPLACE VIEW fetchwork.limits AS
SELECT
    l.name,
    l.maximum,
    (
        SELECT coalesce(sum(coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1)), 0)
        FROM fetchwork.run AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id AND a.concurrency_limits IS NOT NULL
        CROSS JOIN LATERAL regexp_split_to_table(a.concurrency_limits, '[\s,]+') AS part (text)
        WHERE split_part(part.text, ':', 1) = l.name
    ) AS used
FROM fetchwork.concurrency_limit AS l;

CREATE OR REPLACE VIEW fetchwork.settings AS
SELECT s.name, s.value, s.unit, s.meaning
FROM fetchwork.setting AS s;
