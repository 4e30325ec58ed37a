"""The true course of a simulation, recorded apart from the queue, which has to agree with it."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypedDict

#: the way of an execution's result: taken by the agent, left in the spool, or never
Reported = Literal["agent", "spool", "refused", None]


class Summary(TypedDict):
    """A simulation in numbers; times are percentiles in milliseconds."""

    counts: dict[str, int]
    #: by hook
    hooks_ms: dict[str, dict[str, float]]
    #: from the end of one job to the start of the next in the same slot
    gap_ms: dict[str, float]


@dataclass
class Execution:
    """One job process: from its exec, after the fence let it pass, to its end. Times are of the wall."""

    job: str
    run_id: int
    host: str
    slot: str
    started: float
    ended: float | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    hook_reason: str | None = None
    reported: Reported = None


@dataclass
class Ledger:
    """The executions, the counts of events, and the seconds that each kind of hook took."""

    executions: list[Execution] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    #: time from the end of one job to the start of the next in the same slot
    gaps: list[float] = field(default_factory=list)

    def hook(self, name: str, seconds: float) -> None:
        """Note how long one call of a hook took."""
        self.latencies.setdefault(name, []).append(seconds)

    def start(self, job: str, run_id: int, host: str, slot: str) -> Execution:
        """Note that a job process begins."""
        execution = Execution(job, run_id, host, slot, time.time())
        self.executions.append(execution)
        self.counts["started"] += 1
        return execution

    @property
    def running(self) -> int:
        """Job processes that are alive."""
        return sum(1 for execution in self.executions if execution.ended is None)

    def overlaps(self) -> list[tuple[Execution, Execution, float]]:
        """Pairs of executions of one job that were alive at the same time, and for how many seconds."""
        now = time.time()
        pairs = []
        by_job: dict[str, list[Execution]] = {}
        for execution in self.executions:
            by_job.setdefault(execution.job, []).append(execution)
        for executions in by_job.values():
            executions.sort(key=lambda execution: execution.started)
            for number, first in enumerate(executions):
                for second in executions[number + 1 :]:
                    both = min(first.ended or now, second.ended or now) - second.started
                    if both > 0:
                        pairs.append((first, second, both))
        return pairs

    def summary(self) -> Summary:
        """Counts, and the median, 95th and 99th percentile of each hook in milliseconds."""
        return {
            "counts": dict(sorted(self.counts.items())),
            "hooks_ms": {name: percentiles(times) for name, times in sorted(self.latencies.items())},
            "gap_ms": percentiles(self.gaps),
        }


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile and maximum in milliseconds; empty for nothing."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    last = len(ordered) - 1
    points = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[round(last * share)] * 1000, 1) for name, share in points.items()}
