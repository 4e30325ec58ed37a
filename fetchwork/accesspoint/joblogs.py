"""The event logs of each job: its own, and the nodes log of its DAG.

DAGMan follows its nodes by one common log (``DAGManNodesLog``), which gets the events that DAGMan asks for
(``DAGManNodesMask``: the numbers of their types).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fetchwork.db.pool import AsyncDatabase
from fetchwork.ipc.frames import Json
from fetchwork.queue.events.jobevents import Cursor, JobEvent
from fetchwork.queue.events.reader import Reader

#: most clusters remembered as foreign, which are not looked up again
FOREIGN = 100_000

#: in a job's ad: its log, whether that is XML, the nodes log, its mask
_ATTRIBUTES = ("UserLog", "UserLogUseXML", "DAGManNodesLog", "DAGManNodesMask")

# OFFSET 0 makes the planner look up each job by its key, regardless of its estimate of their number
_LOGS = """
SELECT j.*
FROM unnest(%s::integer[], %s::integer[]) AS k (cluster_id, proc_id)
CROSS JOIN LATERAL (
    SELECT
        clusterid, {proc} AS procid, owner, ad ->> 'UserLog' AS log, ad ->> 'UserLogUseXML' = 'true' AS xml,
        ad ->> 'DAGManNodesLog' AS nodes_log, ad ->> 'DAGManNodesMask' AS mask
    FROM fetchwork.{view}
    WHERE
        clusterid = k.cluster_id AND {proc} = k.proc_id AND coalesce(owner = %s::text, true)
        AND ad ->> 'FetchWorkAccessPoint' IS NOT DISTINCT FROM %s::text
    OFFSET 0
) AS j
"""
# the events of a late cluster, and of none of its jobs, have the process -1
_VIEWS = {"jobs": "procid", "history": "procid", "clusters": "-1"}
_LOGS_OF_JOBS = " UNION ALL ".join(_LOGS.format(view=view, proc=proc) for view, proc in _VIEWS.items())


@dataclass(frozen=True, slots=True)
class Log:
    """A log file, its owner, and whether its entries are XML (``log_xml``)."""

    owner: str
    path: str
    xml: bool = False


@dataclass(frozen=True, slots=True)
class _OfJob:
    """The logs of one job, and the event types that the nodes log gets (None: all)."""

    own: Log | None
    nodes: Log | None
    mask: frozenset[int] | None

    def of(self, event_type: int) -> tuple[Log, ...]:
        own = () if self.own is None else (self.own,)
        if self.nodes in (None, self.own) or (self.mask is not None and event_type not in self.mask):
            return own
        assert self.nodes is not None
        return (*own, self.nodes)


class JobLogs:
    """The logs of an access point's jobs (``name`` None: of jobs without one) whose events came by.

    ``owner`` and ``jobs`` (ids) restrict them. With ``output`` all jobs have that log and no other.
    """

    def __init__(
        self,
        database: AsyncDatabase,
        name: str | None,
        *,
        owner: str | None = None,
        jobs: Sequence[str] = (),
        output: Log | None = None,
    ) -> None:
        self._database = database
        self._name = name
        self._owner = owner
        self._jobs = list(jobs)
        self._output = output
        self._logs: dict[tuple[int, int], _OfJob] = {}
        self._foreign: dict[int, None] = {}

    def reader(self, after: Cursor, log: str | None = None) -> Reader:
        """Return a reader of these jobs' and perhaps other events; with ``log`` of jobs with that log."""
        if self._jobs or self._output is not None:
            return Reader(after=str(after), job=self._jobs or None)
        return Reader(after=str(after), log=log)

    def of(self, event: JobEvent) -> tuple[Log, ...]:
        """Return the logs that get an event, after ``find`` has looked up its job."""
        if self._output is not None:
            return (self._output,)
        logs = self._logs.get((event.cluster, event.proc))
        return () if logs is None else logs.of(event.type_number)

    def forget(self, event: JobEvent) -> None:
        """Forget the logs of a job that has ended."""
        self._logs.pop((event.cluster, event.proc), None)

    def note(self, cluster: int, count: int, owner: str, ad: Json) -> None:
        """Record the logs of a cluster whose jobs all have this ad, as ``find`` would find them."""
        spelled = {name.lower(): name for name in ad}
        if any(spelled.get(name.lower(), name) != name for name in _ATTRIBUTES):
            # only the database knows which spelling counts
            return
        log, xml, nodes_log, mask = (ad.get(name) for name in _ATTRIBUTES)
        if not all(value is None or isinstance(value, str) for value in (log, nodes_log, mask)):
            return
        is_xml = xml is True or xml == "true"
        logs = _OfJob(_log(owner, log, xml=is_xml), _log(owner, nodes_log), _mask(mask))
        self._logs.update(((cluster, proc), logs) for proc in range(count))

    @property
    def any(self) -> bool:
        """Whether a known job has a log."""
        return self._output is not None or any(logs.own or logs.nodes for logs in self._logs.values())

    async def find(self, events: Iterable[JobEvent]) -> None:
        """Look up the logs of these events' jobs, unless they are known."""
        unknown = {
            (event.cluster, event.proc) for event in events if event.cluster not in self._foreign
        } - self._logs.keys()
        if not unknown or self._output is not None:
            return
        clusters, procs = (list(column) for column in zip(*unknown, strict=True))
        rows = await self._database.query(
            _LOGS_OF_JOBS, [clusters, procs, self._owner, self._name] * len(_VIEWS)
        )
        for cluster in set(clusters) - {row["clusterid"] for row in rows}:
            self._foreign[cluster] = None
        while len(self._foreign) > FOREIGN:
            del self._foreign[next(iter(self._foreign))]
        for row in rows:
            self._logs[row["clusterid"], row["procid"]] = _OfJob(
                _log(row["owner"], row["log"], xml=row["xml"] is True),
                _log(row["owner"], row["nodes_log"]),
                _mask(row["mask"]),
            )


def _log(owner: str, path: str | None, *, xml: bool = False) -> Log | None:
    if not path or path == "/dev/null" or not path.startswith("/"):
        return None
    return Log(owner, path, xml)


def _mask(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    return frozenset(int(word) for word in text.split(",") if word.strip().isdecimal())
