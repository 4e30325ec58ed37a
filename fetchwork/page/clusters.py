"""Clusters and batches: progress, run times, ends, and the jobs to look at first; and the search box."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from fetchwork.db.calls import reading
from fetchwork.page.acting import ActingSession
from fetchwork.page.problem import Problem
from fetchwork.queue.reading.views import Json, Row

#: ended jobs of which run times and exit codes are shown
MOST_JOBS = 20_000
#: bars of a histogram, and jobs of a list
BARS = 24
FIRST = 10

_COUNTED = "jobs, idle, running, held, suspended, ending, completed, removed"
_CLUSTER = """
SELECT
    count(*) FILTER (WHERE j.jobstatus = 1) AS idle,
    count(*) FILTER (WHERE j.jobstatus IN (2, 6)) AS running,
    count(*) FILTER (WHERE j.jobstatus = 5) AS held,
    count(*) FILTER (WHERE j.jobstatus = 7) AS suspended,
    count(*) FILTER (WHERE j.jobstatus = 3) AS ending,
    min(j.owner) AS owner, min(j.jobbatchname) AS batch, max(j.totalsubmitprocs) AS submitted
FROM fetchwork.jobs AS j
WHERE j.clusterid = %s
"""
# a DAG's own cluster, or that of the DAG whose node it is
_DAG = """
SELECT
    CASE
        WHEN j.ad ->> 'Cmd' LIKE '%%condor_dagman' THEN j.clusterid::text
        ELSE j.ad ->> 'DAGManJobId'
    END AS dag
FROM (
    SELECT q.ad, q.clusterid FROM fetchwork.jobs AS q WHERE q.clusterid = %s
    UNION ALL
    SELECT h.ad, h.clusterid FROM fetchwork.history AS h WHERE h.clusterid = %s
) AS j
LIMIT 1
"""
# as condor_q -factory shows a late cluster
_FACTORY = """
SELECT
    f.owner, f.totalsubmitprocs AS jobs, f.jobmaterializenextprocid AS materialized,
    f.jobmaterializelimit AS limit, f.jobmaterializemaxidle AS max_idle, f.jobmaterializepaused AS paused,
    f.jobmaterializepausereason AS reason
FROM fetchwork.factories AS f
WHERE f.clusterid = %s
"""
_BATCH = f"SELECT {_COUNTED} FROM fetchwork.batches WHERE owner = %s AND jobbatchname = %s"  # noqa: S608
_OF_CLUSTER = """
SELECT
    h.jobid, h.owner, h.jobbatchname AS batch, h.jobstatus, h.exitcode, h.exitsignal,
    h.remotewallclocktime AS wall, h.lastremotehost AS slot, h.completed_at
FROM fetchwork.history AS h
WHERE h.clusterid = %s
ORDER BY h.completed_at DESC
LIMIT %s
"""
_ENDED = """
WITH ended AS MATERIALIZED (
    SELECT
        l.*, l.exitsignal IS NOT NULL OR l.exitcode <> 0 AS failed,
        max(l.wall) OVER () AS longest
    FROM ({last}) AS l
)
SELECT
    (SELECT count(*) FROM ended) AS jobs,
    (SELECT count(*) FROM ended AS e WHERE e.jobstatus = 4) AS completed,
    (SELECT count(*) FROM ended AS e WHERE e.jobstatus = 3) AS removed,
    (SELECT max(e.longest) FROM ended AS e) AS longest,
    (
        SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY e.wall)
        FROM ended AS e
        WHERE e.jobstatus = 4
    ) AS median,
    (SELECT min(e.owner) FROM ended AS e) AS owner,
    (SELECT min(e.batch) FROM ended AS e) AS batch,
    (
        SELECT coalesce(json_agg(b), '[]')
        FROM (
            SELECT
                width_bucket(e.wall, 0, e.longest + 0.001, {bars}) AS n, count(*) AS jobs,
                count(*) FILTER (WHERE NOT e.failed) AS good, count(*) FILTER (WHERE e.failed) AS bad
            FROM ended AS e
            WHERE e.jobstatus = 4
            GROUP BY 1
        ) AS b
    ) AS bars,
    (
        SELECT coalesce(json_agg(x), '[]')
        FROM (
            SELECT e.jobstatus, e.exitcode, e.exitsignal, count(*) AS jobs
            FROM ended AS e
            GROUP BY 1, 2, 3
            ORDER BY 4 DESC
            LIMIT 20
        ) AS x
    ) AS exits,
    (
        SELECT coalesce(json_agg(s), '[]')
        FROM (
            SELECT e.jobid, e.wall, e.slot FROM ended AS e
            WHERE e.jobstatus = 4
            ORDER BY e.wall DESC
            LIMIT {first}
        ) AS s
    ) AS slowest,
    (
        SELECT coalesce(json_agg(f), '[]')
        FROM (
            SELECT e.jobid, e.exitcode, e.exitsignal, e.slot, extract(epoch FROM e.completed_at)::float8 AS at
            FROM ended AS e
            WHERE e.failed
            ORDER BY e.completed_at DESC
            LIMIT {first}
        ) AS f
    ) AS failed
"""

# the kinds of names, the most special one first
_NAMED = """
SELECT
    EXISTS (SELECT FROM fetchwork.hosts AS h WHERE h.machine = %s) AS host,
    EXISTS (SELECT FROM fetchwork.owners AS o WHERE o.owner = %s) AS owner,
    (SELECT min(b.owner) FROM fetchwork.batches AS b WHERE b.jobbatchname = %s) AS batch_owner
"""


def cluster(session: ActingSession, *, cluster: str) -> Json:
    """The jobs of a cluster; raises Problem."""
    if not re.fullmatch("[0-9]{1,9}", cluster):
        raise Problem(400, "bad request", f"'{cluster}' is not a cluster; allowed: a number")
    (queued,) = session.database.query(_CLUSTER, [cluster])
    ended = _ended(session, _OF_CLUSTER, [cluster, MOST_JOBS])
    factories = session.database.query(_FACTORY, [cluster])
    factory = dict(factories[0]) if factories else None
    # of a late cluster there may be no job yet
    owner = queued["owner"] or ended["owner"] or (factory and factory["owner"])
    if owner is None:
        raise Problem(404, "not found", f"cluster '{cluster}' has no jobs, or is not yours")
    dags = session.database.query(_DAG, [cluster, cluster])
    counts = {**queued, "completed": ended["completed"], "removed": ended["removed"]}
    return {
        "constraint": f"ClusterId == {cluster}",
        "owner": owner,
        "batch": queued["batch"] or ended["batch"],
        "dag": dags[0]["dag"] if dags else None,
        "factory": factory,
        "progress": _progress(counts),
        "ended": ended,
    }


def batch(session: ActingSession, *, owner: str, name: str) -> Json:
    """The jobs of a batch; raises Problem."""
    rows = session.database.query(_BATCH, [owner, name])
    if not rows:
        raise Problem(404, "not found", f"{owner} has no batch '{name}', or it is not yours")
    ends, parameters = reading.batch_ends(owner=owner, batch=name, most=MOST_JOBS).statement()
    ends = f"SELECT b.*, NULL AS owner, NULL AS batch FROM ({ends}) AS b"  # noqa: S608 - a call
    return {
        "constraint": f"Owner == {json.dumps(owner)} && JobBatchName == {json.dumps(name)}",
        "owner": owner,
        "batch": name,
        "factory": None,
        "progress": _progress(rows[0]),
        "ended": _ended(session, ends, parameters),
    }


def _ended(session: ActingSession, last: str, parameters: Sequence[object]) -> Json:
    statement = _ENDED.format(last=last, bars=BARS, first=FIRST)
    (row,) = session.database.query(statement, parameters)
    found = {bar["n"]: bar for bar in row["bars"]}
    none = {"jobs": 0, "good": 0, "bad": 0}
    return {**row, "bars": [found.get(n, none) for n in range(1, BARS + 1)] if found else []}


def _progress(counts: Row) -> list[tuple[str, int]]:
    states = ("completed", "removed", "running", "suspended", "held", "ending", "idle")
    return [(state, int(counts[state])) for state in states if counts[state]]


def find(session: ActingSession, *, text: str) -> str:
    """The address of the page that shows a job, cluster, host, owner, batch or constraint."""
    if re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", text):
        return f"/jobs/{text}"
    if re.fullmatch("[0-9]{1,9}", text):
        return f"/clusters/{text}"
    (row,) = session.database.query(_NAMED, [text, text, text])
    if row["host"]:
        return "/hosts/" + quote(text, safe="")
    if row["owner"]:
        return "/jobs?" + urlencode({"owner": text})
    if row["batch_owner"] is not None:
        return "/batches?" + urlencode({"owner": row["batch_owner"], "name": text})
    if re.search(r"[=<>()!]", text):
        return "/jobs?" + urlencode({"constraint": text})
    raise Problem(
        404,
        "not found",
        f"no job, cluster, host, owner or batch of yours is '{text[:100]}'; a constraint has an operator",
    )
