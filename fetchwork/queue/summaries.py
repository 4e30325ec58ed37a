"""Summaries of the queue: by batch, and totals by owner, autocluster or queue."""

from __future__ import annotations

from typing import Any

from fetchwork.queue import steps
from fetchwork.queue.steps import Ask, Memory, Steps
from fetchwork.queue.views import JOBS, Json

COUNTS = ("idle", "running", "held", "suspended", "ending")


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
    rows: list[Json] = yield Ask(
        "SELECT owner, coalesce(jobbatchname, 'ID: ' || clusterid) AS batch, min(qdate) AS"  # noqa: S608
        " qdate,"
        " count(*) FILTER (WHERE jobstatus = 1) AS idle, count(*) FILTER (WHERE jobstatus = 2) AS running,"
        " count(*) FILTER (WHERE jobstatus = 3) AS removed, count(*) FILTER (WHERE jobstatus = 5) AS held,"
        " count(*) FILTER (WHERE jobstatus = 7) AS suspended, count(*) AS jobs,"
        " min(clusterid) AS cluster, max(clusterid) AS last_cluster,"
        " min(procid) AS proc, max(procid) AS last_proc, array_agg(DISTINCT clusterid) AS clusters"
        f" FROM fetchwork.jobs WHERE {where} GROUP BY 1, 2 ORDER BY cluster, batch",
        params,
    )
    done = yield Ask(
        "SELECT clusterid, count(*) FILTER (WHERE jobstatus = 4) AS done FROM fetchwork.history"
        " WHERE clusterid = ANY(%s) GROUP BY clusterid",
        [[cluster for row in rows for cluster in row["clusters"]]],
    )
    by_cluster = {row["clusterid"]: row["done"] for row in done}
    for row in rows:
        row["done"] = sum(by_cluster.get(cluster, 0) for cluster in row.pop("clusters"))
    return rows


def totals(by: str | None = None, *, empty: bool = False) -> Steps[list[Json]]:
    """Counts of all jobs that one may see, from kept counters: in all, or by 'owner', 'autocluster', 'queue'.

    ``empty``: with those that have no job in the queue any more.
    """
    key = {"owner": "owner", "autocluster": "autoclusterid", "queue": "fetchworkqueue", None: None}[by]
    counts = ", ".join(
        f"coalesce(sum({name}), 0)::bigint AS {name}" for name in ("jobs", *COUNTS, "completed", "removed")
    )
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
