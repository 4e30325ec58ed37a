-- Counts by autocluster, from the folded counts, the changes since, and the live runs: one row for each
-- autocluster. A job whose outputs are being delivered (TransferringOutput) counts as running, as in
-- condor_q.
CREATE OR REPLACE VIEW fetchwork.totals WITH (security_barrier) AS
WITH counted AS (
    SELECT t.autocluster_id, t.batch_id, t.jobs, t.held, t.completed, t.removed
    FROM fetchwork.tally AS t
    UNION ALL
    SELECT c.autocluster_id, coalesce(c.batch_id, 0), c.jobs, c.held, c.completed, c.removed
    FROM fetchwork.tally_change AS c
),
summed AS (
    SELECT
        c.autocluster_id,
        sum(c.jobs) AS jobs,
        sum(c.held) AS held,
        sum(c.completed) AS completed,
        sum(c.removed) AS removed
    FROM counted AS c
    GROUP BY c.autocluster_id
),
live AS (
    SELECT
        r.autocluster_id,
        count(*) FILTER (WHERE r.job_status = 2) AS running,
        count(*) FILTER (WHERE r.job_status = 7) AS suspended,
        count(*) FILTER (WHERE r.job_status = 3) AS ending,
        count(*) FILTER (WHERE r.state <> 'running') AS offered
    FROM fetchwork.run AS r
    GROUP BY r.autocluster_id
),
awaited AS (
    SELECT j.autocluster_id, count(*) AS jobs
    FROM fetchwork.bringing AS b
    JOIN fetchwork.job AS j ON j.cluster_id = b.cluster_id AND j.proc_id = b.proc_id
    GROUP BY j.autocluster_id
)
SELECT
    s.autocluster_id AS autoclusterid,
    a.owner,
    a.submitter,
    a.queue AS fetchworkqueue,
    s.jobs,
    s.jobs - s.held - coalesce(l.running, 0) - coalesce(w.jobs, 0) - coalesce(l.suspended, 0)
        - coalesce(l.ending, 0) AS idle,
    coalesce(l.running, 0) + coalesce(w.jobs, 0) AS running,
    s.held,
    coalesce(l.suspended, 0) AS suspended,
    coalesce(l.ending, 0) AS ending,
    coalesce(l.offered, 0) AS offered,
    s.completed,
    s.removed
FROM summed AS s
JOIN fetchwork.autocluster AS a ON a.autocluster_id = s.autocluster_id
LEFT JOIN live AS l ON l.autocluster_id = s.autocluster_id
LEFT JOIN awaited AS w ON w.autocluster_id = s.autocluster_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
