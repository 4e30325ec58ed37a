"""Summaries of the queue: by batch, and totals by owner, autocluster or queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fetchwork.codes import JobStatus
from fetchwork.queue import reading as steps
from fetchwork.queue.reading import Ask, Memory, Steps
from fetchwork.queue.views import JOBS, Json

COUNTS = ("idle", "running", "held", "suspended", "ending")
#: what a line of condor_q counts, and the JobStatus
_BATCH_COUNTS = {
    "idle": JobStatus.IDLE,
    "running": JobStatus.RUNNING,
    "removed": JobStatus.REMOVED,
    "held": JobStatus.HELD,
    "suspended": JobStatus.SUSPENDED,
}


def _sums(names: Iterable[str]) -> str:
    return ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in names)


def batches(constraint: Any, memory: Memory) -> Steps[list[Json]]:
    """The jobs that a constraint selects, by owner and batch name or cluster, as condor_q shows them."""
    selection = yield from steps.compiled(JOBS, constraint, memory)
    where, params = selection.sql, list(selection.params)
    if not selection.exact:
        ads = yield from steps.collected(
            steps.ads(JOBS, constraint, memory, projection=["ClusterId", "ProcId"])
        )
        where = "(clusterid, procid) IN (SELECT * FROM unnest(%s::integer[], %s::integer[]))"
        params = [[ad["ClusterId"] for ad in ads], [ad["ProcId"] for ad in ads]]
    counts = ", ".join(
        f"count(*) FILTER (WHERE jobstatus = {status}) AS {name}" for name, status in _BATCH_COUNTS.items()
    )
    # First by cluster: hashing numbers, instead of sorting all jobs by the text that names their batch.
    rows: list[Json] = yield Ask(
        "SELECT owner, coalesce(jobbatchname, 'ID: ' || clusterid) AS batch,"  # noqa: S608
        f" extract(epoch FROM min(q_at))::bigint AS qdate, {_sums(('jobs', *_BATCH_COUNTS))},"
        " min(clusterid) AS cluster, max(clusterid) AS last_cluster,"
        " min(proc) AS proc, max(last_proc) AS last_proc, array_agg(DISTINCT clusterid) AS clusters"
        " FROM (SELECT owner, jobbatchname, clusterid, min(q_at) AS q_at, count(*) AS jobs,"
        f" {counts}, min(procid) AS proc, max(procid) AS last_proc"
        f" FROM fetchwork.jobs WHERE {where} GROUP BY owner, jobbatchname, clusterid) AS part"
        " GROUP BY 1, 2 ORDER BY cluster, batch",
        params,
    )
    # an edit may have moved some jobs of a cluster to another batch
    done = yield Ask(
        "SELECT owner, coalesce(jobbatchname, 'ID: ' || clusterid) AS batch, sum(done)::bigint AS done"
        " FROM (SELECT owner, jobbatchname, clusterid, count(*) AS done FROM fetchwork.history"
        " WHERE clusterid = ANY(%s) AND jobstatus = 4 GROUP BY owner, jobbatchname, clusterid) AS part"
        " GROUP BY 1, 2",
        [sorted({cluster for row in rows for cluster in row.pop("clusters")})],
    )
    by_batch = {(row["owner"], row["batch"]): row["done"] for row in done}
    for row in rows:
        row["done"] = by_batch.get((row["owner"], row["batch"]), 0)
    return rows


def totals(by: str | None = None, *, empty: bool = False) -> Steps[list[Json]]:
    """Counts of all jobs that one may see, from kept counters: in all, or by 'owner', 'autocluster', 'queue'.

    ``empty``: with those that have no job in the queue any more.
    """
    key = {"owner": "owner", "autocluster": "autoclusterid", "queue": "fetchworkqueue", None: None}[by]
    counts = _sums(("jobs", *COUNTS, "completed", "removed"))
    if key is None:
        rows = yield Ask(f"SELECT {counts} FROM fetchwork.totals")  # noqa: S608
        return list(rows)
    more = (
        ", min(owner) AS owner, min(submitter) AS submitter, min(fetchworkqueue) AS queue"
        if by == "autocluster"
        else ""
    )
    some = "" if empty else "HAVING sum(jobs) > 0"
    rows = yield Ask(
        f"SELECT {key} AS {by}{more}, {counts} FROM fetchwork.totals GROUP BY {key} {some} ORDER BY"  # noqa: S608
        f" {key}"
    )
    return list(rows)
