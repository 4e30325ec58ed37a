"""A DAG: its nodes that were submitted, their states, and which follows which."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fetchwork.codes import JobStatus
from fetchwork.dag import drawing, status
from fetchwork.dag.graph import Graph
from fetchwork.db.calls import reading
from fetchwork.page.acting import ActingSession
from fetchwork.page.problem import Problem
from fetchwork.queue.ask import Memory
from fetchwork.queue.reading import dags
from fetchwork.queue.reading.views import Json, Row

#: nodes that are drawn, and that the table has
MOST_DRAWN = 500
MOST_SHOWN = 1000
#: jobs of nodes that are read
MOST_JOBS = 50_000
#: a node's state is the first of these that one of its jobs has
STATES = ("failed", "held", "running", "idle", "removed", "done")
_WANTED = ("JobBatchName", "DAGNodeName", "DAGManJobId", "ExitCode", "HoldReason", status.TOTAL)

_JOBS = """
SELECT
    j.ad ->> 'DAGNodeName' AS node, coalesce(j.ad ->> 'DAGParentNodeNames', '') AS parents, j.clusterid,
    j.jobstatus, j.failed, j.seconds
FROM (
    SELECT
        q.ad, q.clusterid, q.jobstatus, false AS failed,
        extract(epoch FROM now())::float8 - q.jobcurrentstartdate AS seconds
    FROM fetchwork.jobs AS q
    WHERE q.clusterid = ANY (%s)
    UNION ALL
    SELECT
        h.ad, h.clusterid, h.jobstatus, h.exitsignal IS NOT NULL OR h.exitcode <> 0,
        h.remotewallclocktime
    FROM fetchwork.history AS h
    WHERE h.clusterid = ANY (%s)
) AS j
WHERE j.ad ? 'DAGNodeName'
LIMIT %s
"""


def dag(session: ActingSession, *, cluster: str) -> Json:
    """A DAG's counts, its nodes with their states, and where its picture has them; raises Problem.

    A node's state is that of its last cluster's jobs: condor_dagman alone knows of scripts and retries.
    """
    if not re.fullmatch("[0-9]{1,9}", cluster):
        raise Problem(400, "bad request", f"'{cluster}' is not a DAG; allowed: a number")
    found = session.run(dags.tree(int(cluster), Memory(), _WANTED))
    if not found:
        raise Problem(404, "not found", f"there is no DAG '{cluster}', or it is not yours")
    ad = found[0]["ad"]
    clusters = session.database.run(reading.dag_clusters(dags=[int(cluster)], owner=ad["Owner"], ended=True))
    ids = [each.cluster_id for each in clusters]
    nodes = _nodes(session.database.query(_JOBS, [ids, ids, MOST_JOBS]))
    counts = Counter(node["state"] for node in nodes.values())
    waiting = int(ad.get(status.TOTAL, 0)) - len(nodes)
    nodes = dict(sorted(nodes.items(), key=lambda item: (STATES.index(item[1]["state"]), item[0])))
    return {
        "ad": ad,
        "ended": found[0]["ended"],
        "inner": [view["ad"] for view in found[1:] if view["parent"] == int(cluster)],
        "counts": [(state, counts[state]) for state in STATES if counts[state]],
        "waiting": max(0, waiting),
        "nodes": dict(list(nodes.items())[:MOST_SHOWN]),
        "all_nodes": len(nodes),
        "picture": drawing.layout(_graph(nodes)) if 0 < len(nodes) <= MOST_DRAWN else None,
    }


def _nodes(rows: Sequence[Row]) -> dict[str, Json]:
    last: dict[str, int] = {}
    for row in rows:
        last[row["node"]] = max(last.get(row["node"], 0), row["clusterid"])
    nodes: dict[str, Json] = {}
    for row in rows:
        if row["clusterid"] != last[row["node"]]:
            continue
        state = _state(row)
        node = nodes.setdefault(
            row["node"],
            {
                "cluster": row["clusterid"],
                "state": state,
                "jobs": 0,
                "seconds": None,
                "parents": [name for name in row["parents"].split(",") if name],
            },
        )
        node["jobs"] += 1
        node["state"] = min(node["state"], state, key=STATES.index)
        if state not in ("idle", "held") and row["seconds"] is not None:
            node["seconds"] = max(node["seconds"] or 0.0, row["seconds"])
    return nodes


def _state(row: Row) -> str:
    if row["failed"]:
        return "failed"
    return {
        JobStatus.IDLE: "idle",
        JobStatus.HELD: "held",
        JobStatus.REMOVED: "removed",
        JobStatus.COMPLETED: "done",
    }.get(row["jobstatus"], "running")


def _graph(nodes: dict[str, Json]) -> Graph:
    return Graph(
        nodes=sorted(nodes, key=lambda name: (nodes[name]["cluster"], name)),
        edges={
            (parent, name) for name, node in nodes.items() for parent in node["parents"] if parent in nodes
        },
    )
