"""What an agent does: its answers by hook and outcome, how long they took, and its state when asked.

The agent counts in its loop; Prometheus is answered by a thread, which asks the loop for the state.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from fetchwork.agent.client import AgentStatus
from fetchwork.handlers.context import Outcome
from fetchwork.metrics.serving import Server

#: requests with a label of their own; any account of the host may send others
HOOKS = ("fetch_work", "reply_fetch", "evict_claim", "prepare_job", "update_job_info", "job_exit", "status")
OTHER = "other"
#: seconds: a hook is answered within milliseconds, and a fetch may wait
BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class AgentMetrics:
    """The counters of an agent.

    ``status`` is asked from a thread and answers with the agent's state, or None if that takes too long;
    ``spooled`` is asked there too, for the number of reports in the spool.
    """

    def __init__(self, status: Callable[[], AgentStatus | None], spooled: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "HookRequests",
            "Requests of hooks, by what they came to",
            ["hook", "outcome"],
            registry=self.registry,
        )
        self._times = Histogram(
            "HookTime_seconds",
            "Time from a request to its answer; a FETCH_WORK may wait for work",
            ["hook"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_StatusCollector(status, spooled))

    def serve(self, address: str, port: int) -> Server:
        """Answer Prometheus at an address; raises AgentUnavailable."""
        return Server(self.registry, address, port)

    def answered(self, name: str, outcome: Outcome, seconds: float) -> None:
        """Count a request that was answered."""
        hook = name if name in HOOKS else OTHER
        self._requests.labels(hook, outcome).inc()
        self._times.labels(hook).observe(seconds)


class _StatusCollector(Collector):
    def __init__(self, status: Callable[[], AgentStatus | None], spooled: Callable[[], int]) -> None:
        self._status, self._spooled = status, spooled

    def describe(self) -> list[Metric]:
        """Nothing: the agent need not answer yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The agent's state; nothing if it does not answer."""
        status = self._status()
        if status is None:
            return
        info = InfoMetricFamily("Agent", "The agent", labels=["host"])
        info.add_metric([status["host"]], {"version": status["version"]})
        yield info
        up = GaugeMetricFamily("DatabaseUp", "Whether the database answers", labels=["database"])
        silent = GaugeMetricFamily(
            "DatabaseLastAnswer_seconds", "Time since the database answered last", labels=["database"]
        )
        for name, database in status["databases"].items():
            up.add_metric([name], float(database["state"] == "up"))
            silent.add_metric([name], database["last_answer_s"])
        yield up
        yield silent
        runs = GaugeMetricFamily("Runs", "Live runs of this host", labels=["state"])
        for name, number in Counts(run["state"] for run in status["runs"]).items():
            runs.add_metric([name], number)
        yield runs
        for name, text, value in (
            ("WaitingFetches", "Fetches that wait for work", status["waiting_fetches"]),
            ("MaxWaitingFetches", "Fetches that may wait at once", status["max_waiting_fetches"]),
            ("AgentConnections", "Open connections of hooks", status["connections"]),
            ("SpooledReports", "Reports of ended jobs that wait for the database", self._spooled()),
        ):
            gauge = GaugeMetricFamily(name, text)
            gauge.add_metric([], value)
            yield gauge
