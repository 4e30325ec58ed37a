"""The metrics of an agent: its answers by hook and outcome with their times, its warnings and its state.

The agent counts in its event loop; a thread answers Prometheus, and asks the loop for the state.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter as Counts
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from fetchwork.agent.client import AgentStatus
from fetchwork.handlers.context import Answer
from fetchwork.hook import wire
from fetchwork.hook.spool import Spool
from fetchwork.log import NAME, WITHHELD
from fetchwork.metrics.serving import Server

#: of a chain's runner
CHAIN_REQUESTS = ("chain_first", "chain_next")
#: requests with a label of their own; any account of the host may send requests of other names
HOOKS = frozenset((*wire.HOOKS, *CHAIN_REQUESTS, "status"))
#: warnings with a label of their own; a request is logged by its name, which any account may choose
EVENTS = frozenset(
    (
        *(
            "autocluster_ended_matchmaker",
            "cache_not_written",
            "checkpoint_late",
            "database_away",
            "host_taken",
        ),
        *(
            "master_gone",
            "no_starter_log",
            "offer_not_withdrawn",
            "orphan",
            "output_not_read",
            "outputs_late",
        ),
        *(
            "outputs_set_aside",
            "over_disk",
            "over_memory",
            "root_part_ended",
            "run_given_up",
            "runs_not_read",
        ),
        *(
            "runs_not_written",
            "schema",
            "slot_unknown",
            "spool_bad_deleted",
            "spool_rejected",
            "starter_gone",
        ),
        "starter_log_not_removed", "starter_logs_not_cleaned",
    )
)  # fmt: skip
OTHER = "other"
#: seconds that Prometheus' thread waits for the agent's state
STATUS_S = 5.0
#: histogram limits in seconds: most hooks are answered within milliseconds, but a fetch may wait
BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class AgentMetrics:
    """The counters of an agent.

    A thread calls all three functions: ``status`` returns the agent's state, or None if that takes too long,
    ``spooled`` the number of reports in the spool, ``spool_free`` the free share of its file system.
    """

    def __init__(
        self,
        status: Callable[[], AgentStatus | None],
        spooled: Callable[[], int],
        spool_free: Callable[[], float],
    ) -> None:
        self.registry = CollectorRegistry()
        warnings = Counter(
            "LogWarnings",
            "Lines of the agent's log that are worth reading, by event",
            ["event"],
            registry=self.registry,
        )
        # Prometheus sees no increase in a counter that appears with its first line, hence this gauge
        last = Gauge(
            "LastLogWarning_timestamp_seconds",
            "When the last such line was written",
            ["event"],
            registry=self.registry,
        )
        self._handler = _Warned(warnings, last)
        self._requests = Counter(
            "HookRequests",
            "Requests of hooks, by outcome",
            ["hook", "outcome"],
            registry=self.registry,
        )
        self._chained = Counter(
            "JobsStartedInChains", "Jobs that were handed to a chain's runner", registry=self.registry
        )
        self._chains = Counter(
            "ChainsEnded", "Chains whose runner got no further job", ["reason"], registry=self.registry
        )
        self._times = Histogram(
            "HookTime_seconds",
            "Time from a request to its answer; a FETCH_WORK may wait for work",
            ["hook"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._status = status
        self.registry.register(_StatusCollector(status, spooled, spool_free))

    @classmethod
    def of(
        cls, status: Callable[[], AgentStatus], spool: Spool, loop: asyncio.AbstractEventLoop
    ) -> AgentMetrics:
        """Return the metrics of an agent whose ``status`` must be called in its event loop."""

        async def answer() -> AgentStatus:
            return status()

        def from_thread() -> AgentStatus | None:
            asked = asyncio.run_coroutine_threadsafe(answer(), loop)
            try:
                return asked.result(STATUS_S)
            except (TimeoutError, RuntimeError):
                return None

        def free() -> float:
            status = os.statvfs(spool.directory)
            return status.f_bavail / max(1, status.f_blocks)

        return cls(from_thread, lambda: len(spool.waiting()), free)

    def serve(self, address: str, port: int) -> Server:
        """Answer Prometheus at an address, and count logged warnings; raises AgentUnavailable."""
        server = Server(self.registry, address, port, self._unready)
        logging.getLogger("fetchwork").addHandler(self._handler)
        return server

    def _unready(self) -> str | None:
        """The reason why none of the agent's databases serves it, or None."""
        status = self._status()
        if status is None:
            return f"the agent does not answer within {STATUS_S:g} s"
        states = status["databases"]
        if any(one["state"] == "up" for one in states.values()):
            return None
        return "; ".join(f"{name}: {one['problem'] or one['state']}" for name, one in states.items())

    def close(self) -> None:
        """Stop counting warnings."""
        logging.getLogger("fetchwork").removeHandler(self._handler)

    def answered(self, name: str, answer: Answer, seconds: float) -> None:
        """Count an answered request."""
        hook = name if name in HOOKS else OTHER
        self._requests.labels(hook, answer.outcome).inc()
        self._times.labels(hook).observe(seconds)
        if name in CHAIN_REQUESTS:
            self._chained.inc(answer.outcome == "begun" or "next" in answer.details)
            if "chain_over" in answer.details:
                self._chains.labels(answer.details["chain_over"]).inc()


class _Warned(logging.Handler):
    """Counts warnings and errors by the names of their events."""

    def __init__(self, counter: Counter, last: Gauge) -> None:
        super().__init__(logging.WARNING)
        self._counter, self._last = counter, last

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line."""
        name = getattr(record, NAME, OTHER)
        name = name if name in EVENTS else OTHER
        self._counter.labels(name).inc(1 + getattr(record, WITHHELD, 0))
        self._last.labels(name).set(record.created)


class _StatusCollector(Collector):
    def __init__(
        self,
        status: Callable[[], AgentStatus | None],
        spooled: Callable[[], int],
        spool_free: Callable[[], float],
    ) -> None:
        self._status, self._spooled, self._spool_free = status, spooled, spool_free

    def describe(self) -> list[Metric]:
        """Return no metrics, so that registering does not ask the agent."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the agent's state; nothing if the agent does not answer."""
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
            ("SpoolFree_ratio", "Share of the spool's file system that is free", self._spool_free()),
        ):
            gauge = GaugeMetricFamily(name, text)
            gauge.add_metric([], value)
            yield gauge
