-- Counts by named batch (JobBatchName), as in totals by autocluster; jobs without a batch are not counted.
CREATE OR REPLACE VIEW fetchwork.batches WITH (security_barrier) AS
WITH counted AS (
    SELECT t.batch_id, t.jobs, t.held, t.completed, t.removed
    FROM fetchwork.tally AS t
    WHERE t.batch_id <> 0
    UNION ALL
    SELECT c.batch_id, c.jobs, c.held, c.completed, c.removed
    FROM fetchwork.tally_change AS c
    WHERE c.batch_id IS NOT NULL
),
summed AS (
    SELECT
        c.batch_id,
        sum(c.jobs) AS jobs,
        sum(c.held) AS held,
        sum(c.completed) AS completed,
        sum(c.removed) AS removed
    FROM counted AS c
    GROUP BY c.batch_id
),
live AS (
    SELECT
        j.batch_id,
        count(*) FILTER (WHERE j.job_status = 2) AS running,
        count(*) FILTER (WHERE j.job_status = 7) AS suspended,
        count(*) FILTER (WHERE j.job_status = 3) AS ending
    FROM fetchwork.job AS j
    -- a condition for the index of jobs that do not wait
    WHERE j.job_status IN (2, 3, 7) AND j.run_id IS NOT NULL AND j.batch_id IS NOT NULL
    GROUP BY j.batch_id
),
awaited AS (
    SELECT j.batch_id, count(*) AS jobs
    FROM fetchwork.bringing AS b
    JOIN fetchwork.job AS j ON j.cluster_id = b.cluster_id AND j.proc_id = b.proc_id
    WHERE j.batch_id IS NOT NULL
    GROUP BY j.batch_id
)
SELECT
    b.owner,
    b.name AS jobbatchname,
    s.jobs,
    s.jobs - s.held - coalesce(l.running, 0) - coalesce(w.jobs, 0) - coalesce(l.suspended, 0)
        - coalesce(l.ending, 0) AS idle,
    coalesce(l.running, 0) + coalesce(w.jobs, 0) AS running,
    s.held,
    coalesce(l.suspended, 0) AS suspended,
    coalesce(l.ending, 0) AS ending,
    s.completed,
    s.removed
FROM summed AS s
JOIN fetchwork.batch AS b ON b.batch_id = s.batch_id
LEFT JOIN live AS l ON l.batch_id = s.batch_id
LEFT JOIN awaited AS w ON w.batch_id = s.batch_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR b.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
