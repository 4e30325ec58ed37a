"""The last day in numbers, by quarter of an hour."""

from __future__ import annotations

from fetchwork.page.acting import ActingSession
from fetchwork.queue.reading.views import Json

# "running" at the end of a quarter: the jobs that run now, without later starts, with later ends
_DAY = """
WITH quarters AS (
    SELECT generate_series(
        date_bin('15 minutes', now() - interval '1 day', 'epoch') + interval '15 minutes',
        now(), '15 minutes'
    ) AS at
),
counts AS MATERIALIZED (
    SELECT c.started_at AS started, c.ended_at AS ended, c.runs, c.badruns AS bad, c.waits, c.longestwait
    FROM fetchwork.run_counts AS c
),
live AS MATERIALIZED (
    SELECT
        date_bin('15 minutes', to_timestamp(j.jobcurrentstartdate), 'epoch') AS started,
        j.qdate, j.jobstartdate
    FROM fetchwork.jobs AS j
    WHERE j.jobstatus IN (2, 7)
),
of_day AS (
    SELECT c.started, c.ended, sum(c.runs) AS runs, sum(c.bad) AS bad FROM counts AS c GROUP BY 1, 2
    UNION ALL
    SELECT l.started, NULL, count(*), 0 FROM live AS l GROUP BY 1
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
-- from a job's submission to its first start
waits AS (
    SELECT
        date_bin('15 minutes', to_timestamp(l.jobstartdate), 'epoch') AS at,
        l.jobstartdate - l.qdate AS wait_s
    FROM live AS l
    UNION ALL
    SELECT c.started, w.wait_s
    FROM counts AS c
    CROSS JOIN LATERAL unnest(c.waits) AS w (wait_s)
),
waited AS (
    SELECT w.at, percentile_disc(0.5) WITHIN GROUP (ORDER BY w.wait_s) AS wait_s, max(w.wait_s) AS longest
    FROM waits AS w
    GROUP BY w.at
),
longest AS (
    SELECT c.started AS at, max(c.longestwait) AS wait_s FROM counts AS c GROUP BY 1
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
    greatest(w.wait_s, 0) AS wait_s,
    greatest(w.longest, n.wait_s, 0) AS longest_wait_s
FROM quarters AS h
CROSS JOIN alive
LEFT JOIN started AS s ON s.at = h.at
LEFT JOIN ended AS e ON e.at = h.at
LEFT JOIN waited AS w ON w.at = h.at
LEFT JOIN longest AS n ON n.at = h.at
ORDER BY h.at
"""


def last_day(session: ActingSession) -> list[Json]:
    """Starts, ends, running jobs and waits of the last day; waits in seconds, None without a start.

    The waits are those of running jobs, and of a sample of ended ones.
    """
    return [dict(row) for row in session.database.query(_DAY)]
