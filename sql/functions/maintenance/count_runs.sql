-- Counts the runs and jobs that ended since the last call by owner and queue, for the view run_counts, and by
-- host, for host_counts: charts of a busy day would otherwise read millions of rows. They are counted by five
-- minutes, and those of over two hours ago by quarters of an hour; a host's by quarters. maintain_queue calls
-- it. A call counts at most a quarter of an hour, up to a minute ago, because earlier transactions may still
-- be open; the ends of a longer transaction are not counted. Counts are kept for eight days. Of the waits for
-- a first start it keeps a sample of about 60 a call: each n-th in the order of the owners, and the first of
-- each owner.
-- Locks: the row of "counted"; a concurrent call returns at once.
CREATE OR REPLACE FUNCTION fetchwork.count_runs()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    since timestamptz;
    until timestamptz;
    fine_since timestamptz;
BEGIN
    SELECT greatest(c.up_to, date_bin('15 minutes', now() - interval '25 hours', 'epoch'))
    INTO since
    FROM fetchwork.counted AS c
    FOR UPDATE SKIP LOCKED;
    until := least(date_trunc('minute', now() - interval '1 minute'), since + interval '15 minutes');
    IF since IS NULL OR since >= until THEN
        RETURN;
    END IF;
    INSERT INTO fetchwork.run_count AS k (
        ended, started, owner, queue, runs, bad_runs, waits, longest_wait
    )
    SELECT e.ended, e.started, e.owner, e.queue, sum(e.runs), sum(e.bad_runs), '{}', NULL
    FROM (
        SELECT
            date_bin('5 minutes', h.ended_at, 'epoch') AS ended,
            date_bin('5 minutes', h.started_at, 'epoch') AS started,
            h.owner,
            coalesce(a.queue, '') AS queue,
            count(*) AS runs,
            count(*) FILTER (WHERE h.outcome <> 'completed') AS bad_runs
        FROM fetchwork.run_history AS h
        LEFT JOIN fetchwork.autocluster AS a ON a.autocluster_id = h.autocluster_id
        WHERE h.ended_at >= since AND h.ended_at < until AND h.started_at IS NOT NULL
        GROUP BY 1, 2, 3, 4
    ) AS e
    GROUP BY e.ended, e.started, e.owner, e.queue
    ON CONFLICT (ended, started, owner, queue) DO UPDATE SET
        runs = k.runs + excluded.runs, bad_runs = k.bad_runs + excluded.bad_runs;
    INSERT INTO fetchwork.run_count AS k (
        ended, started, owner, queue, runs, bad_runs, waits, longest_wait
    )
    SELECT
        n.ended, n.started, n.owner, n.queue, 0, 0,
        coalesce(
            array_agg(n.wait_s) FILTER (
                WHERE n.of_owner = 1 OR n.of_all % greatest(1, n.jobs / 50) = 0
            ), '{}'
        ),
        max(n.wait_s)
    FROM (
        SELECT
            date_bin('5 minutes', j.completed_at, 'epoch') AS ended,
            date_bin('5 minutes', j.first_start_at, 'epoch') AS started,
            j.owner,
            j.queue,
            extract(epoch FROM j.first_start_at - j.q_date)::integer AS wait_s,
            row_number() OVER each_owner AS of_owner,
            row_number() OVER every_owner AS of_all,
            count(*) OVER everything AS jobs
        FROM fetchwork.job_history AS j
        WHERE j.completed_at >= since AND j.completed_at < until AND j.first_start_at IS NOT NULL
        WINDOW each_owner AS (PARTITION BY j.owner), every_owner AS (ORDER BY j.owner), everything AS ()
    ) AS n
    GROUP BY n.ended, n.started, n.owner, n.queue
    ON CONFLICT (ended, started, owner, queue) DO UPDATE SET
        waits = k.waits || excluded.waits,
        longest_wait = greatest(k.longest_wait, excluded.longest_wait);
    INSERT INTO fetchwork.host_count AS k (host_id, at, starts, ends, bad_ends)
    SELECT
        h.host_id, date_bin('15 minutes', e.at, 'epoch'), sum(e.starts), sum(1 - e.starts),
        count(*) FILTER (WHERE e.starts = 0 AND h.outcome <> 'completed')
    FROM fetchwork.run_history AS h
    CROSS JOIN LATERAL (VALUES (h.started_at, 1), (h.ended_at, 0)) AS e (at, starts)
    WHERE h.ended_at >= since AND h.ended_at < until AND h.started_at IS NOT NULL
    GROUP BY 1, 2
    ON CONFLICT (host_id, at) DO UPDATE SET
        starts = k.starts + excluded.starts, ends = k.ends + excluded.ends,
        bad_ends = k.bad_ends + excluded.bad_ends;
    fine_since := date_bin('15 minutes', now() - interval '2 hours', 'epoch');
    WITH fine AS (
        DELETE FROM fetchwork.run_count AS k
        -- from before the last call on, as that may be long ago
        WHERE k.ended >= least(since, fine_since) - interval '150 minutes' AND k.ended < fine_since
            AND (k.ended, k.started) <> (
                date_bin('15 minutes', k.ended, 'epoch'), date_bin('15 minutes', k.started, 'epoch')
            )
        RETURNING k.*
    )
    INSERT INTO fetchwork.run_count AS k (
        ended, started, owner, queue, runs, bad_runs, waits, longest_wait
    )
    SELECT
        date_bin('15 minutes', p.ended, 'epoch'), date_bin('15 minutes', p.started, 'epoch'), p.owner,
        p.queue,
        sum(p.runs), sum(p.bad_runs),
        coalesce(array_agg(p.wait_s) FILTER (WHERE p.wait_s IS NOT NULL), '{}'),
        max(p.longest_wait)
    FROM (
        SELECT f.ended, f.started, f.owner, f.queue, f.runs, f.bad_runs, f.longest_wait, NULL AS wait_s
        FROM fine AS f
        UNION ALL
        SELECT f.ended, f.started, f.owner, f.queue, 0, 0, NULL, w.wait_s
        FROM fine AS f
        CROSS JOIN LATERAL unnest(f.waits) AS w (wait_s)
    ) AS p
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (ended, started, owner, queue) DO UPDATE SET
        runs = k.runs + excluded.runs, bad_runs = k.bad_runs + excluded.bad_runs,
        waits = k.waits || excluded.waits,
        longest_wait = greatest(k.longest_wait, excluded.longest_wait);
    DELETE FROM fetchwork.run_count AS k
    WHERE k.ended < now() - interval '8 days';
    DELETE FROM fetchwork.host_count AS k
    WHERE k.at < now() - interval '8 days';
    UPDATE fetchwork.counted AS c
    SET up_to = until;
END
$$;
