-- Runs that ended in the last week and started before, counted by owner, queue and the five minutes of their
-- start and end (quarters of an hour where the end is over two hours ago); with a sample of the waits for
-- their first start of the jobs that ended then, and the longest of these waits. Runs that
-- functions/maintenance/count_runs.sql has not counted yet are a row each; for a range with two ends the
-- planner rightly expects few.
CREATE OR REPLACE VIEW fetchwork.run_counts WITH (security_barrier) AS
SELECT
    u.owner,
    u.queue AS fetchworkqueue,
    u.ended AS ended_at,
    u.started AS started_at,
    u.runs,
    u.bad_runs AS badruns,
    u.waits,
    u.longest_wait AS longestwait
FROM (
    SELECT k.owner, k.queue, k.ended, k.started, k.runs, k.bad_runs, k.waits, k.longest_wait
    FROM fetchwork.run_count AS k
    WHERE k.ended > now() - interval '7 days'
    UNION ALL
    SELECT
        h.owner,
        coalesce(a.queue, ''),
        date_bin('5 minutes', h.ended_at, 'epoch'),
        date_bin('5 minutes', h.started_at, 'epoch'),
        1,
        CASE WHEN h.outcome <> 'completed' THEN 1 ELSE 0 END,
        '{}',
        NULL
    FROM fetchwork.run_history AS h
    LEFT JOIN fetchwork.autocluster AS a ON a.autocluster_id = h.autocluster_id
    WHERE h.ended_at BETWEEN (
            SELECT greatest(c.up_to, now() - interval '7 days')
            FROM fetchwork.counted AS c
        ) AND 'infinity'
        AND h.started_at IS NOT NULL
    UNION ALL
    SELECT
        j.owner,
        j.queue,
        date_bin('5 minutes', j.completed_at, 'epoch'),
        date_bin('5 minutes', j.first_start_at, 'epoch'),
        0,
        0,
        ARRAY[w.wait_s],
        w.wait_s
    FROM fetchwork.job_history AS j
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM j.first_start_at - j.q_date)::integer AS wait_s
    ) AS w
    WHERE j.completed_at BETWEEN (
            SELECT greatest(c.up_to, now() - interval '7 days')
            FROM fetchwork.counted AS c
        ) AND 'infinity'
        AND j.first_start_at IS NOT NULL
) AS u
WHERE (SELECT fetchwork.sees_all(current_user))
    OR u.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
