"""Calls that read events and large views in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fetchwork.db.calls.call import Call, Record, first_of, given, one_of, records_of, value_of


@dataclass(frozen=True, slots=True)
class EventWindow(Record):
    """The readable events: all after ``kept`` are there, and no event will be added before ``until``."""

    kept_batch: int
    kept_id: int
    until_batch: int
    until_id: int
    #: there are more events after ``until``
    more: bool
    #: the given cursor is after all events that this database has ever shown
    ahead: bool


@dataclass(frozen=True, slots=True)
class JobEdge(Record):
    """The last job of a page, in the order of ids."""

    COLUMNS: ClassVar[Mapping[str, str]] = {"cluster_id": "clusterid", "proc_id": "procid"}

    cluster_id: int
    proc_id: int


@dataclass(frozen=True, slots=True)
class HistoryEdge(Record):
    """The last ended job of a page, the newest first."""

    COLUMNS: ClassVar[Mapping[str, str]] = {"cluster_id": "clusterid", "proc_id": "procid"}

    completed_at: datetime
    cluster_id: int
    proc_id: int


@dataclass(frozen=True, slots=True)
class RunEdge(Record):
    """The last run of a page, the newest first."""

    COLUMNS: ClassVar[Mapping[str, str]] = {"run_id": "runid"}

    run_id: int


@dataclass(frozen=True, slots=True)
class DagCluster(Record):
    """A cluster of a DAG's node, and the DAG that it names."""

    dag: int
    cluster_id: int


def dag_clusters(*, dags: Sequence[int], owner: str, ended: bool = False) -> Call[list[DagCluster]]:
    """The clusters of the nodes of the given DAGs that have jobs of an Owner in the queue, or had some."""
    return records_of(DagCluster, "dag_clusters", given(locals()))


@dataclass(frozen=True, slots=True)
class SchedulerCluster(Record):
    """A cluster of the scheduler universe."""

    cluster_id: int


def scheduler_clusters() -> Call[list[SchedulerCluster]]:
    """The clusters of the scheduler universe with jobs in the queue, of all owners."""
    return records_of(SchedulerCluster, "scheduler_clusters")


@dataclass(frozen=True, slots=True)
class FirstIdle(Record):
    """An Idle job of an autocluster."""

    autocluster_id: int
    cluster_id: int
    proc_id: int


def first_idle(*, autoclusters: Sequence[int]) -> Call[list[FirstIdle]]:
    """One Idle job of each autocluster that has one."""
    return records_of(FirstIdle, "first_idle", given(locals()))


@dataclass(frozen=True, slots=True)
class Failure(Record):
    """A run that failed, and how."""

    cluster_id: int
    proc_id: int
    #: None for a host that was forgotten
    host: str | None
    what: str


def recent_failures(*, most: int) -> Call[list[Failure]]:
    """The latest failed runs of the last hour, at most so many, of the Owners that the caller may see."""
    return records_of(Failure, "recent_failures", given(locals()))


@dataclass(frozen=True, slots=True)
class HostEnd(Record):
    """A run that ended on a host."""

    jobid: str
    owner: str
    remotehost: str
    outcome: str
    reason: str | None
    exitcode: int | None
    exitsignal: int | None
    #: None if the job never started
    started_at: datetime | None
    ended_at: datetime


def host_ends(*, host: str, most: int) -> Call[list[HostEnd]]:
    """The latest ends on a host in the last hour, at most so many, of the Owners that the caller may see."""
    return records_of(HostEnd, "host_ends", given(locals()))


@dataclass(frozen=True, slots=True)
class BatchEnd(Record):
    """An ended job of a batch."""

    jobid: str
    jobstatus: int
    exitcode: int | None
    exitsignal: int | None
    #: seconds
    wall: float
    slot: str | None
    completed_at: datetime


def batch_ends(*, owner: str, batch: str, most: int) -> Call[list[BatchEnd]]:
    """The jobs of a batch among the owner's latest ended jobs, of which so many are read."""
    return records_of(BatchEnd, "batch_ends", given(locals()))


@dataclass(frozen=True, slots=True)
class OutputChunk(Record):
    """A part of a run's output; without a stream it gives the run's state alone."""

    COLUMNS: ClassVar[Mapping[str, str]] = {"run_id": "run"}

    run_id: int
    #: more may come
    running: bool
    #: the reason that no output comes
    problem: str | None
    #: 1: stdout, 2: stderr
    stream: int | None
    #: the position of its first byte in the file
    at: int | None
    content: bytes | None


def watch_output(
    *, cluster: int, proc: int, run_id: int | None, stdout_at: int | None, stderr_at: int | None
) -> Call[list[OutputChunk]]:
    """Watch a job's output for some seconds; its parts after two positions, empty if the job never ran."""
    return records_of(OutputChunk, "watch_output", given(locals()))


def policies_rest() -> Call[bool]:
    """Whether there are jobs whose policy no process evaluates."""
    return value_of("policies_rest")


def may_sequence_events() -> Call[bool]:
    """Whether the caller may put events into the stream (``maintenance.sequence_events``), on this server."""
    return value_of("may_sequence_events")


def event_window(*, after_batch: int, after_id: int, most: int | None = None) -> Call[EventWindow]:
    """The window of events after a cursor that can be read now, with ``most`` events if given."""
    return one_of(EventWindow, "event_window", given(locals()))


@dataclass(frozen=True, slots=True)
class NamedJobs(Record):
    """An id, the number of jobs of the queue that it names, and their numbers by state."""

    id: str
    jobs: int
    idle: int
    running: int
    removed: int
    held: int
    completed: int
    suspended: int


def named_jobs(*, ids: Sequence[str]) -> Call[list[NamedJobs]]:
    """The number of jobs of the queue that each id names, "42.0" or "42" for a cluster."""
    return records_of(NamedJobs, "named_jobs", given(locals()))


def job_edge(*, cluster: int, proc: int, n: int) -> Call[JobEdge | None]:
    """The last of the ``n`` jobs after this one; None if there are fewer."""
    return first_of(JobEdge, "job_edge", given(locals()))


def history_edge(*, before: datetime | str, cluster: int, proc: int, n: int) -> Call[HistoryEdge | None]:
    """The last of the ``n`` jobs that ended before this one; None if there are fewer."""
    return first_of(HistoryEdge, "history_edge", given(locals()))


def run_edge(*, before: int, n: int) -> Call[RunEdge | None]:
    """The last of the ``n`` runs before this one; None if there are fewer."""
    return first_of(RunEdge, "run_edge", given(locals()))
