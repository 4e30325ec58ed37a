"""The state of a queue and its pool, read from the views when Prometheus asks.

Many clients may ask: a reading is served again for ``MAX_AGE_S``. While the database does not answer there is
only ``DatabaseUp 0``, and no guessed value.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fetchwork.errors import FetchworkError
from fetchwork.queue.reading import summaries
from fetchwork.queue.reading.views import Row
from fetchwork.queue.session import Session

#: seconds for which a reading is served again
MAX_AGE_S = 5.0
#: label values of one metric; the rest is "other"
MAX_LABELS = 100
OTHER = "other"

#: column of fetchwork.totals -> metric, named as in a schedd's ad if that has it
JOBS = {
    "jobs": ("TotalJobAds", "Jobs in the queue"),
    "idle": ("TotalIdleJobs", "Idle jobs"),
    "running": ("TotalRunningJobs", "Running jobs"),
    "held": ("TotalHeldJobs", "Held jobs"),
    "suspended": ("TotalSuspendedJobs", "Suspended jobs"),
    "ending": ("TotalRemovedJobs", "Removed jobs whose process has not ended yet"),
}

_JOBS = """
SELECT
    submitter, fetchworkqueue AS queue,
    sum(jobs)::float8 AS jobs, sum(idle)::float8 AS idle, sum(running)::float8 AS running,
    sum(held)::float8 AS held, sum(suspended)::float8 AS suspended, sum(ending)::float8 AS ending
FROM fetchwork.totals
GROUP BY submitter, fetchworkqueue
HAVING sum(jobs) > 0
ORDER BY sum(jobs) DESC
"""

_DEMAND = """
SELECT
    fetchworkqueue AS queue, sum(autoclusters)::float8 AS autoclusters,
    coalesce(extract(epoch FROM now()) - min(oldestqdate), 0)::float8 AS oldest_s
FROM fetchwork.demand_now
GROUP BY fetchworkqueue
"""

_QUEUES = (
    "SELECT name AS queue, paused::integer AS paused, draining::integer AS draining FROM fetchwork.queues"
)

_LIMITS = """
SELECT name AS "limit", maximum::float8 AS maximum, used::float8 AS used
FROM fetchwork.limits
WHERE maximum IS NOT NULL
ORDER BY used DESC
"""

_SUBMITTERS = """
SELECT name AS submitter, priority::float8 AS priority, weightedusage::float8 AS usage
FROM fetchwork.submitters
ORDER BY weightedusage DESC
"""


class PoolCollector(Collector):
    """The metrics of one database; ``session`` must belong to a role that sees all jobs."""

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._metrics: list[Metric] = []

    def describe(self) -> Iterable[Metric]:
        """Nothing: to name the metrics without asking the database, so that it need not answer yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics, read now or a moment ago."""
        with self._lock:
            if self._clock() - self._read_at > MAX_AGE_S:
                self._metrics = self._read()
                self._read_at = self._clock()
            yield from self._metrics

    def _read(self) -> list[Metric]:
        began = time.monotonic()
        try:
            self._session.database.query("SELECT 1")
            latency_s = time.monotonic() - began
            metrics = [metric for read in _READS for metric in read(self._session)]
        except FetchworkError:
            return [_gauge("DatabaseUp", "Whether the database answers", 0.0)]
        return [
            _gauge("DatabaseUp", "Whether the database answers", 1.0),
            _gauge("DatabaseLatency_seconds", "Time of a call that does nothing", latency_s),
            *metrics,
            _gauge("CollectionTime_seconds", "Time of reading these metrics", time.monotonic() - began),
        ]


def _gauge(name: str, text: str, value: float) -> Metric:
    metric = GaugeMetricFamily(name, text)
    metric.add_metric([], value)
    return metric


def _labelled(name: str, text: str, labels: Sequence[str], rows: Iterable[Row], column: str) -> Metric:
    """A gauge with a value for each row, those beyond MAX_LABELS summed up as "other"."""
    metric = GaugeMetricFamily(name, text, labels=list(labels))
    values: Counter[tuple[str, ...]] = Counter()
    for number, row in enumerate(rows):
        beyond = number >= MAX_LABELS
        values[tuple(OTHER if beyond else str(row[label]) for label in labels)] += row[column]
    for names, value in values.items():
        metric.add_metric(list(names), value)
    return metric


def _jobs(session: Session) -> Iterator[Metric]:
    rows = session.database.query(_JOBS)
    for column, (name, text) in JOBS.items():
        yield _labelled(name, text, ("submitter", "queue"), rows, column)
    submitters = {row["submitter"] for row in rows}
    yield _gauge("NumUsers", "Submitters with jobs in the queue", len(submitters))


def _demand(session: Session) -> Iterator[Metric]:
    rows = session.database.query(_DEMAND)
    yield _labelled("Autoclusters", "Autoclusters with idle jobs", ("queue",), rows, "autoclusters")
    yield _labelled(
        "OldestIdleJob_seconds", "Waiting time of the first idle job", ("queue",), rows, "oldest_s"
    )


def _slots(session: Session) -> Iterator[Metric]:
    rows = session.run(summaries.slot_states())
    labels = ("state", "activity")
    yield _labelled("TotalSlots", "Slots of live hosts, as of their last fetch", labels, rows, "slots")
    yield _labelled("TotalCpus", "Cpus of these slots that no dynamic slot has", labels, rows, "cpus")


def _hosts(session: Session) -> Iterator[Metric]:
    row = session.run(summaries.host_counts())
    yield _gauge("HostsAlive", "Hosts whose agent keeps its lease", row["alive"])
    yield _gauge("HostsSilent", "Hosts with runs whose agent's lease has expired", row["silent"])
    yield _gauge("BlackHoles", "Hosts that fail one job after the other", row["black_holes"])
    yield _gauge("HostsCopied", "Hosts whose identity was found on two machines", row["copied"])
    rest = session.run(summaries.policies_rest())
    yield _gauge("PoliciesRest", "Whether no process evaluates the policies of idle jobs", float(rest))
    (waited_for,) = session.database.query("SELECT count(*) AS hosts FROM fetchwork.unsettled")
    yield _gauge("OffersWait", "Hosts that offers wait for, after a move", waited_for["hosts"])


def _queues(session: Session) -> Iterator[Metric]:
    rows = session.database.query(_QUEUES)
    yield _labelled("QueuePaused", "Whether the queue offers no jobs", ("queue",), rows, "paused")
    yield _labelled("QueueDraining", "Whether the queue accepts no jobs", ("queue",), rows, "draining")


def _limits(session: Session) -> Iterator[Metric]:
    rows = session.database.query(_LIMITS)
    yield _labelled("ConcurrencyLimit", "Maximum of a concurrency limit", ("limit",), rows, "maximum")
    yield _labelled("ConcurrencyLimitUsed", "Use of a concurrency limit", ("limit",), rows, "used")


def _submitters(session: Session) -> Iterator[Metric]:
    # priorities cannot be summed up
    rows = session.database.query(_SUBMITTERS)[:MAX_LABELS]
    yield _labelled(
        "EffectivePriority", "Effective priority; the lowest is next", ("submitter",), rows, "priority"
    )
    yield _labelled(
        "WeightedUsage_seconds", "Decayed usage in weighted slot seconds", ("submitter",), rows, "usage"
    )


def _notifications(session: Session) -> Iterator[Metric]:
    (row,) = session.database.query("SELECT pg_notification_queue_usage()::float8 AS used")
    text = "Part of PostgreSQL's queue of notifications that is in use; above 0.5 none are sent"
    yield _gauge("NotificationQueue_ratio", text, row["used"])


_READS: tuple[Callable[[Session], Iterator[Metric]], ...] = (
    _jobs,
    _demand,
    _slots,
    _hosts,
    _queues,
    _limits,
    _submitters,
    _notifications,
)
