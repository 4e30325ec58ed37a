"""Summaries of the queue: by batch, and totals by owner, autocluster or queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, TypedDict, cast

from fetchwork.classad.exprform import expr_text
from fetchwork.db.calls import reading
from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.reading.views import Json

COUNTS = ("idle", "running", "held", "suspended", "ending")
TotalsBy: TypeAlias = Literal["owner", "autocluster", "queue"]


def _sums(names: Iterable[str]) -> str:
    return ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in names)


_SLOT_STATES = """
SELECT
    coalesce(s.state, '') AS state, coalesce(s.activity, '') AS activity, count(*) AS slots,
    coalesce(sum(s.cpus), 0)::float8 AS cpus
FROM fetchwork.slots AS s
JOIN fetchwork.hosts AS h ON h.machine = s.machine
WHERE h.alive
GROUP BY 1, 2
ORDER BY 3 DESC
"""


class SlotState(TypedDict):
    """Slots with the same state at their last fetch, and their Cpus outside of dynamic slots."""

    state: str
    activity: str
    slots: int
    cpus: float


def slot_states() -> Steps[list[SlotState]]:
    """The slots of live hosts by state and activity, most slots first."""
    rows: list[SlotState] = yield Ask(_SLOT_STATES)
    return rows


_HOST_COUNTS = """
SELECT
    count(*) FILTER (WHERE alive) AS alive,
    count(*) FILTER (WHERE NOT alive AND runs > 0) AS silent,
    count(*) FILTER (WHERE black_hole_since_at IS NOT NULL) AS black_holes,
    count(copied_at) AS copied
FROM fetchwork.hosts
"""


class HostCounts(TypedDict):
    """Numbers of hosts: alive; with runs, their lease over; black holes; with a copied identity."""

    alive: int
    silent: int
    black_holes: int
    copied: int


def host_counts() -> Steps[HostCounts]:
    """The numbers of hosts by state."""
    rows: list[HostCounts] = yield Ask(_HOST_COUNTS)
    return rows[0]


def policies_rest() -> Steps[bool]:
    """Whether there are jobs whose policy no process evaluates."""
    rests: bool = yield reading.policies_rest()
    return rests


def location() -> Steps[Json]:
    """The database's name, and its server's host and port."""
    rows: list[Json] = yield Ask(
        """
        SELECT
            current_database() AS database,
            coalesce(host(inet_server_addr()), '127.0.0.1') AS host,
            coalesce(inet_server_port(), current_setting('port')::integer) AS port
        """
    )
    return rows[0]


def totals(by: TotalsBy | None = None, *, empty: bool = False) -> Steps[list[Json]]:
    """Counts of all jobs that the caller may see, from counters: in total, or by owner, autocluster or queue.

    ``empty``: include groups that have no job in the queue any more.
    """
    counts = _sums(("jobs", *COUNTS, "completed", "removed"))
    if by is None:
        rows = yield Ask(f"SELECT {counts} FROM fetchwork.totals")  # noqa: S608 - constants
        return list(rows)
    key = {"owner": "owner", "autocluster": "autoclusterid", "queue": "fetchworkqueue"}[by]
    columns = [f"{key} AS {by}", counts]
    if by == "autocluster":
        columns.insert(1, "min(owner) AS owner, min(submitter) AS submitter, min(fetchworkqueue) AS queue")
    rows = yield Ask(
        f"""
        SELECT {", ".join(columns)}
        FROM fetchwork.totals
        GROUP BY {key}
        {"" if empty else "HAVING sum(jobs) > 0"}
        ORDER BY {key}
        """  # noqa: S608 - constants
    )
    return list(rows)


def left() -> Steps[list[Json]]:
    """The numbers of ended jobs that leave_in_queue keeps, by owner."""
    rows = yield Ask(
        """
        SELECT owner, count(*) AS jobs
        FROM fetchwork.jobs
        WHERE jobstatus = 4
        GROUP BY owner
        ORDER BY owner
        """
    )
    return list(rows)


class DemandLine(TypedDict):
    """A line of ``fetchwork demand``: idle jobs with equal requests; None for a resource not requested."""

    queue: str
    request_cpus: float | None
    request_memory_mib: int | None
    request_disk_kib: int | None
    request_gpus: float | None
    #: the expression, None if the jobs have none
    requirements: str | None
    idle: int
    autoclusters: int
    #: the submit time of the job that has waited longest, in seconds; None if all of them are deferred
    oldest_qdate: int | None


_DEMAND = """
SELECT
    fetchworkqueue AS queue, requestcpus AS request_cpus, requestmemory AS request_memory_mib,
    requestdisk AS request_disk_kib, requestgpus AS request_gpus, requirements, idlejobs AS idle,
    autoclusters, oldestqdate AS oldest_qdate
FROM fetchwork.demand_now
WHERE %s::text [] IS NULL OR fetchworkqueue = ANY (%s::text [])
ORDER BY idlejobs DESC, oldestqdate
"""


def demand(queues: Sequence[str] | None = None) -> Steps[list[DemandLine]]:
    """The requests of the idle jobs of some queues (None: all queues), most jobs first."""
    named = None if queues is None else list(queues)
    rows = yield Ask(_DEMAND, [named, named])
    for row in rows:
        asked = expr_text(row["requirements"])
        if asked is not None:
            row["requirements"] = asked
    return cast(list[DemandLine], rows)


# one statement, so that a job is either waiting or over, never both
_PROGRESS = """
WITH one AS MATERIALIZED (
    SELECT j.procid, j.jobstatus, j.holdreason, (j.facts ->> 'ExitCode')::integer AS exitcode
    FROM fetchwork.jobs AS j
    WHERE j.clusterid = %s AND (%s::integer IS NULL OR j.procid = %s)
),
over AS (
    SELECT h.jobstatus, h.exitcode
    FROM fetchwork.history AS h
    WHERE h.clusterid = %s AND (%s::integer IS NULL OR h.procid = %s)
    UNION ALL
    -- that leave_in_queue keeps
    SELECT one.jobstatus, one.exitcode FROM one WHERE one.jobstatus = 4
)
SELECT
    (
        SELECT coalesce(jsonb_agg(jsonb_build_array(alike.jobstatus, alike.first, alike.last)), '[]')
        FROM (
            SELECT next.jobstatus, min(next.procid) AS first, max(next.procid) AS last
            FROM (
                SELECT one.procid, one.jobstatus,
                    one.procid - row_number() OVER (PARTITION BY one.jobstatus ORDER BY one.procid) AS gap
                FROM one
                WHERE one.jobstatus <> 4
            ) AS next
            GROUP BY next.jobstatus, next.gap
        ) AS alike
    ) AS waiting,
    (SELECT one.holdreason FROM one WHERE one.jobstatus = 5 ORDER BY one.procid DESC LIMIT 1) AS hold_reason,
    count(*) FILTER (WHERE over.jobstatus = 4 AND over.exitcode = 0) AS succeeded,
    count(*) FILTER (WHERE over.jobstatus = 4 AND over.exitcode IS DISTINCT FROM 0) AS failed,
    count(*) FILTER (WHERE over.jobstatus = 3) AS removed
FROM over
"""


def progress(cluster: int, proc: int | None = None) -> Steps[Json]:
    """The jobs of a cluster, or one of them, and how the others ended.

    ``waiting`` has status, first and last process of each range of consecutive jobs with one status, so it is
    short for a very large cluster.
    """
    rows = yield Ask(_PROGRESS, [cluster, proc, proc] * 2)
    return dict(rows[0])
