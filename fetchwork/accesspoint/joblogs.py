"""Which event log each job of this access point has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fetchwork.db.pool import AsyncDatabase
from fetchwork.queue.events import JobEvent

#: clusters of others that are remembered not to be looked up again
FOREIGN = 100_000

_LOGS = """
SELECT clusterid, procid, owner, ad ->> 'UserLog' AS log
FROM fetchwork.{}
WHERE clusterid = ANY(%s)
    AND (clusterid, procid) IN (SELECT * FROM unnest(%s::integer[], %s::integer[]))
    AND ad ->> 'FetchWorkAccessPoint' = %s
"""
_LOGS_OF_JOBS = f"{_LOGS.format('jobs')} UNION ALL {_LOGS.format('history')}"


@dataclass(frozen=True, slots=True)
class Log:
    """A log file, and whose it is."""

    owner: str
    path: str


class JobLogs:
    """The logs of the jobs whose events came by, by job."""

    def __init__(self, database: AsyncDatabase, name: str) -> None:
        self._database = database
        #: of this access point
        self._name = name
        self._logs: dict[tuple[int, int], Log | None] = {}
        self._foreign: dict[int, None] = {}

    def of(self, one: JobEvent) -> Log | None:
        """The log of an event's job, if ``find`` found one."""
        return self._logs.get((one.cluster, one.proc))

    def forget(self, one: JobEvent) -> None:
        """Forget the log of a job that has ended."""
        self._logs.pop((one.cluster, one.proc), None)

    @property
    def any(self) -> bool:
        """Has any job that is known a log?"""
        return any(self._logs.values())

    async def find(self, events: Iterable[JobEvent]) -> None:
        """Look up the logs of these events' jobs that are not known yet."""
        unknown = {
            (one.cluster, one.proc) for one in events if one.cluster not in self._foreign
        } - self._logs.keys()
        if not unknown:
            return
        clusters, procs = (list(column) for column in zip(*unknown, strict=True))
        rows = await self._database.query(_LOGS_OF_JOBS, [clusters, clusters, procs, self._name] * 2)
        for cluster in set(clusters) - {row["clusterid"] for row in rows}:
            self._foreign[cluster] = None
        while len(self._foreign) > FOREIGN:
            del self._foreign[next(iter(self._foreign))]
        for row in rows:
            path = row["log"]
            named = path and path != "/dev/null" and path.startswith("/")
            self._logs[row["clusterid"], row["procid"]] = Log(row["owner"], path) if named else None
