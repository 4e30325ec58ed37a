"""The last day in numbers, by quarter of an hour."""

from __future__ import annotations

from fetchwork.page.acting import ActingSession
from fetchwork.queue.views import Json

# "running" at the end of a quarter: what runs now, without what started since, with what ended since
_DAY = """
WITH quarters AS (
    SELECT generate_series(
        date_bin('15 minutes', now() - interval '1 day', 'epoch') + interval '15 minutes',
        now(), '15 minutes'
    ) AS at
),
-- one look at the runs, of which a busy day has millions
of_day AS (
    SELECT
        date_bin('15 minutes', r.started_at, 'epoch') AS started,
        date_bin('15 minutes', r.ended_at, 'epoch') AS ended,
        count(*) AS runs,
        count(*) FILTER (WHERE r.outcome <> 'completed') AS bad
    FROM fetchwork.runs AS r
    WHERE r.started_at IS NOT NULL AND (r.ended_at IS NULL OR r.ended_at > now() - interval '1 day')
    GROUP BY 1, 2
),
ended AS (
    SELECT d.ended AS at, sum(d.runs)::bigint AS ends, sum(d.bad)::bigint AS bad_ends
    FROM of_day AS d
    GROUP BY 1
),
started AS (
    SELECT d.started AS at, sum(d.runs)::bigint AS starts FROM of_day AS d GROUP BY 1
),
alive AS (
    SELECT coalesce(sum(d.runs), 0) AS running FROM of_day AS d WHERE d.ended IS NULL
),
-- from a job's submission to its first start: of jobs that run, and of some that ended in each quarter
waits AS (
    SELECT j.qdate, j.jobstartdate
    FROM fetchwork.jobs AS j
    WHERE j.jobstatus IN (2, 7)
    UNION ALL
    SELECT e.qdate, e.jobstartdate
    FROM quarters AS q
    CROSS JOIN LATERAL (
        SELECT h.qdate, h.jobstartdate
        FROM fetchwork.history AS h
        WHERE h.completed_at >= q.at AND h.completed_at < q.at + interval '15 minutes'
        ORDER BY h.completed_at
        LIMIT 500
    ) AS e
    WHERE e.jobstartdate IS NOT NULL
),
waited AS (
    SELECT
        date_bin('15 minutes', to_timestamp(w.jobstartdate), 'epoch') AS at,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY w.jobstartdate - w.qdate) AS wait_s,
        max(w.jobstartdate - w.qdate) AS longest_wait_s
    FROM waits AS w
    WHERE w.jobstartdate > extract(epoch FROM now() - interval '1 day')
    GROUP BY 1
)
SELECT
    extract(epoch FROM h.at)::bigint AS at, coalesce(s.starts, 0) AS starts, coalesce(e.ends, 0) AS ends,
    coalesce(e.bad_ends, 0) AS bad_ends,
    (
        alive.running + coalesce(
            sum(coalesce(e.ends, 0) - coalesce(s.starts, 0))
                OVER (ORDER BY h.at ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0
        )
    )::bigint AS running,
    greatest(w.wait_s, 0) AS wait_s, greatest(w.longest_wait_s, 0) AS longest_wait_s
FROM quarters AS h
CROSS JOIN alive
LEFT JOIN started AS s ON s.at = h.at
LEFT JOIN ended AS e ON e.at = h.at
LEFT JOIN waited AS w ON w.at = h.at
ORDER BY h.at
"""


def last_day(session: ActingSession) -> list[Json]:
    """Starts, ends, running jobs and waits of the last day; waits in seconds, None where nothing started.

    The waits are those of the jobs that run, and of up to 500 that ended in each quarter.
    """
    return [dict(row) for row in session.database.query(_DAY)]
