"""Charts of a range of time: starts, ends, idle and running jobs, waits; and the last hour."""

from __future__ import annotations

from collections.abc import Sequence

from fetchwork.db.calls import reading
from fetchwork.page.acting import ActingSession
from fetchwork.page.problem import Problem
from fetchwork.queue.reading.views import Json, Row

#: name of a range -> its seconds, and those of a step
RANGES = {
    "hour": (3600, 300),
    "6 hours": (6 * 3600, 900),
    "day": (86400, 900),
    "week": (7 * 86400, 2 * 3600),
}
#: failed runs of the last hour that are told by reason and host, the latest ones
MOST_FAILURES = 5_000
#: owners, and queues, with a line of their last hour
MOST_LINES = 12

_COUNTS = """
    SELECT
        date_bin(interval '{step} s', c.started_at, 'epoch') AS started,
        date_bin(interval '{step} s', c.ended_at, 'epoch') AS ended,
        c.runs, c.badruns AS bad, c.waits
    FROM fetchwork.run_counts AS c
    WHERE c.ended_at > now() - interval '{seconds} s'
        AND c.owner = coalesce(%s, c.owner) AND c.fetchworkqueue = coalesce(%s, c.fetchworkqueue)
"""
_LIVE = """
    SELECT
        date_bin(interval '{step} s', to_timestamp(j.jobcurrentstartdate), 'epoch') AS started,
        date_bin(interval '{step} s', to_timestamp(j.jobstartdate), 'epoch') AS first_started,
        j.jobstartdate - j.qdate AS wait_s
    FROM fetchwork.jobs AS j
    WHERE j.jobstatus IN (2, 7)
        AND j.owner = coalesce(%s, j.owner) AND j.fetchworkqueue = coalesce(%s, j.fetchworkqueue)
"""
_IDLE = """
    SELECT c.counted_at, sum(c.idle)::bigint AS idle
    FROM fetchwork.idle_counts AS c
    WHERE c.counted_at > now() - interval '{seconds} s'
        AND c.owner = coalesce(%s, c.owner) AND c.fetchworkqueue = coalesce(%s, c.fetchworkqueue)
    GROUP BY c.counted_at
    UNION ALL
    SELECT now(), coalesce(sum(t.idle), 0)::bigint
    FROM fetchwork.totals AS t
    WHERE t.owner = coalesce(%s, t.owner) AND t.fetchworkqueue = coalesce(%s, t.fetchworkqueue)
"""
# its starts and ends are rows of their own; a wait is a job's, before it has a host
_HOST_COUNTS = """
    SELECT e.started, e.ended, e.runs, e.bad, '{}'::integer [] AS waits
    FROM fetchwork.host_counts AS c
    CROSS JOIN LATERAL (
        SELECT date_bin(interval '{step} s', c.counted_at, 'epoch') AS at
    ) AS s
    CROSS JOIN LATERAL (
        VALUES (s.at, NULL, c.starts, 0), (NULL, s.at, c.ends, c.badends)
    ) AS e (started, ended, runs, bad)
    WHERE c.machine = %s AND c.counted_at > now() - interval '{seconds} s'
"""
_HOST_LIVE = """
    SELECT
        date_bin(interval '{step} s', r.started_at, 'epoch') AS started,
        NULL::timestamptz AS first_started, NULL::integer AS wait_s
    FROM fetchwork.runs AS r
    WHERE r.host = %s AND r.outcome IS NULL AND r.started_at IS NOT NULL
"""
_NO_IDLE = "    SELECT now() AS counted_at, 0::bigint AS idle"
# "running" at the end of a step: the jobs that run now, without later starts, with later ends
_RANGE = """
WITH steps AS (
    SELECT s.at
    FROM generate_series(
        date_bin(interval '{step} s', now() - interval '{seconds} s', 'epoch') + interval '{step} s',
        now(), interval '{step} s'
    ) AS s (at)
),
counts AS MATERIALIZED (
{counts}
),
live AS MATERIALIZED (
{live}
),
ended AS (
    SELECT c.ended AS at, sum(c.runs)::bigint AS ends, sum(c.bad)::bigint AS bad_ends
    FROM counts AS c
    GROUP BY 1
),
started AS (
    SELECT b.at, sum(b.runs)::bigint AS starts
    FROM (
        SELECT c.started AS at, sum(c.runs) AS runs FROM counts AS c GROUP BY 1
        UNION ALL
        SELECT l.started, count(*) FROM live AS l GROUP BY 1
    ) AS b
    GROUP BY 1
),
-- from a job's submission to its first start
waited AS (
    SELECT w.at, percentile_disc(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY w.wait_s) AS wait_s
    FROM (
        SELECT l.first_started AS at, l.wait_s FROM live AS l
        UNION ALL
        SELECT c.started, w.wait_s
        FROM counts AS c
        CROSS JOIN LATERAL unnest(c.waits) AS w (wait_s)
    ) AS w
    GROUP BY w.at
),
-- at the last count of each step, and now
idled AS (
    SELECT DISTINCT ON (date_bin(interval '{step} s', i.counted_at, 'epoch'))
        date_bin(interval '{step} s', i.counted_at, 'epoch') AS at, i.idle
    FROM (
{idle}
    ) AS i
    ORDER BY date_bin(interval '{step} s', i.counted_at, 'epoch'), i.counted_at DESC
)
SELECT
    extract(epoch FROM h.at)::bigint AS at, coalesce(s.starts, 0) AS starts,
    coalesce(e.ends, 0) AS all_ends,
    coalesce(e.ends, 0) - coalesce(e.bad_ends, 0) AS ends, coalesce(e.bad_ends, 0) AS bad_ends,
    (
        (SELECT count(*) FROM live) + coalesce(
            sum(coalesce(e.ends, 0) - coalesce(s.starts, 0))
                OVER (ORDER BY h.at ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0
        )
    )::bigint AS running,
    coalesce(i.idle, 0) AS idle,
    greatest(w.wait_s[1], 0) AS wait_s,
    greatest(w.wait_s[2], 0) AS wait_90_s
FROM steps AS h
LEFT JOIN started AS s ON s.at = h.at
LEFT JOIN ended AS e ON e.at = h.at
LEFT JOIN waited AS w ON w.at = h.at
LEFT JOIN idled AS i ON i.at = h.at
ORDER BY h.at
"""

_AGE = """
SELECT extract(epoch FROM now() - least(
    (SELECT min(c.started_at) FROM fetchwork.run_counts AS c),
    (SELECT min(to_timestamp(j.jobcurrentstartdate)) FROM fetchwork.jobs AS j WHERE j.jobstatus IN (2, 7))
))::float8 AS age
"""

_ENDS = """
SELECT
    c.owner, c.fetchworkqueue AS queue,
    extract(epoch FROM date_bin('5 minutes', c.ended_at, 'epoch'))::bigint AS at, sum(c.runs)::bigint AS ends
FROM fetchwork.run_counts AS c
WHERE c.ended_at > now() - interval '1 hour' AND c.runs > 0
GROUP BY 1, 2, 3
"""


def charts(
    session: ActingSession, *, span: str | None, owner: str | None, queue: str | None, host: str | None
) -> Json:
    """The steps of a range (None: that of the pool's age), of one owner and queue, one host, or all.

    Raises Problem. A host's are of at least a quarter of an hour, without idle jobs and waits.

    Waits are in seconds, None without a start: those of running jobs, and of a sample of ended ones. ``ends``
    are jobs' own ends, ``bad_ends`` all other ends of runs.
    """
    if span is None:
        (row,) = session.database.query(_AGE)
        age = row["age"] or 0
        span = next((name for name, (seconds, _) in RANGES.items() if age < seconds), "week")
    if span not in RANGES:
        raise Problem(400, "bad request", f"range is '{span}'; allowed: {', '.join(RANGES)}")
    seconds, step = RANGES[span]
    parts, asked = {"counts": _COUNTS, "live": _LIVE, "idle": _IDLE}, [owner, queue] * 4
    if host is not None:
        parts, asked = {"counts": _HOST_COUNTS, "live": _HOST_LIVE, "idle": _NO_IDLE}, [host, host]
        step = max(step, 900)
    statement = _RANGE
    for name, text in {**parts, "seconds": str(seconds), "step": str(step)}.items():
        statement = statement.replace(f"{{{name}}}", text)
    rows = [dict(row) for row in session.database.query(statement, asked)]
    return {"range": span, "owner": owner, "queue": queue, "host": host, "rows": rows}


def last_hour(session: ActingSession) -> Json:
    """The last hour's ends by owner, queue and five minutes, and its latest failures by reason and host."""
    ends = session.database.query(_ENDS)
    reasons: dict[str, Json] = {}
    hosts: dict[str, int] = {}
    failures = session.database.run(reading.recent_failures(most=MOST_FAILURES))
    for failure in failures:
        jobid = f"{failure.cluster_id}.{failure.proc_id}"
        reason = reasons.setdefault(failure.what, {"runs": 0, "jobid": jobid})
        reason["runs"] += 1
        host = failure.host or ""
        hosts[host] = hosts.get(host, 0) + 1
    return {
        "all_failures": len(failures) < MOST_FAILURES,
        "owners": _busiest(ends, "owner"),
        "queues": _busiest(ends, "queue"),
        "reasons": sorted(reasons.items(), key=lambda item: -item[1]["runs"])[:8],
        "hosts": sorted(hosts.items(), key=lambda item: -item[1])[:8],
    }


def _busiest(rows: Sequence[Row], by: str) -> dict[str, dict[int, int]]:
    """The numbers of ends by the time of their five minutes, of the owners or queues with most of them."""
    found: dict[str, dict[int, int]] = {}
    for row in rows:
        ends = found.setdefault(row[by], {})
        ends[row["at"]] = ends.get(row["at"], 0) + row["ends"]
    busiest = sorted(found, key=lambda name: (-sum(found[name].values()), name))[:MOST_LINES]
    return {name: found[name] for name in busiest}
