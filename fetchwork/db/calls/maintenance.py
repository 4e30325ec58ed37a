"""Calls that maintain the whole queue: dead runs, counts, policy, preemption, old rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fetchwork.db.calls.call import Call, JsonObject, Record, done, given, one_of, records_of, value_of


@dataclass(frozen=True, slots=True)
class QueueMaintenance(Record):
    """The results of one round of maintenance."""

    #: runs that were given up
    reaped: int
    #: jobs whose delay was over
    woken: int
    #: changes that were added to the counts
    folded: int


@dataclass(frozen=True, slots=True)
class Sequenced(Record):
    """The events that a call put into the stream."""

    #: the ``since`` of the caller's next call
    until: str | None
    #: the number of events
    sequenced: int


@dataclass(frozen=True, slots=True)
class ObjectOver(Record):
    """An object in a bucket that is no longer needed: its name and number, and the URL to delete it."""

    bucket_id: int
    object: UUID
    n: int
    url: str


@dataclass(frozen=True, slots=True)
class BucketProbe(Record):
    """A bucket as the administrator named it, and a URL that tests whether it answers and knows the key."""

    bucket: str
    url: str


@dataclass(frozen=True, slots=True)
class Lead(QueueMaintenance):
    """The results of the leader's round of maintenance; an agent that does not lead did nothing."""

    leads: bool
    #: policies of waiting jobs are due that this agent may evaluate (``fetchwork.leadertasks``)
    rests: bool


@dataclass(frozen=True, slots=True)
class PolicyJob(Record):
    """A job that does not run and has a periodic policy."""

    cluster_id: int
    proc_id: int
    ad: JsonObject


def maintain_queue() -> Call[QueueMaintenance]:
    """Give up runs that fell silent, wake jobs whose delay is over, add up counts."""
    return one_of(QueueMaintenance, "maintain_queue")


def lead(*, agent_id: str | UUID, lead_s: float) -> Call[Lead]:
    """``maintain_queue`` by the leader, which stays leader while it calls at least every ``lead_s``."""
    return one_of(Lead, "lead", given(locals()))


def sends_notifications() -> Call[bool]:
    """Whether the database sends notifications: not while PostgreSQL's notification queue fills up."""
    return value_of("sends_notifications")


def notify_agents() -> Call[None]:
    """Tell all agents to read everything again."""
    return done("notify_agents")


def end_notification_reader(*, pid: int) -> Call[bool]:
    """End a session that keeps the notification queue full; False if the database ended none."""
    return value_of("end_notification_reader", given(locals()))


def sequence_events(*, since: str | None) -> Call[Sequenced]:
    """Put events committed since the caller's last call into the stream of events, for all readers."""
    return one_of(Sequenced, "sequence_events", given(locals()))


def take_leader_task(*, name: str, every_s: float) -> Call[bool]:
    """True for the one caller in each period that is to do the task for all. Must not be repeated."""
    return value_of("take_leader_task", given(locals()))


def preempt() -> Call[int]:
    """End running runs in favour of waiting jobs, if their queues allow it; returns the number ended."""
    return value_of("preempt")


def maintain_tables() -> Call[None]:
    """Make the partitions of the coming days, and drop those that have expired."""
    return done("maintain_tables")


def resume_offers() -> Call[bool]:
    """Allow claims although hosts have not reported their runs; False if no host was awaited."""
    return value_of("resume_offers")


def policy_jobs(*, after_cluster: int, after_proc: int, page: int) -> Call[list[PolicyJob]]:
    """The next page of the jobs that don't run and have a periodic policy."""
    return records_of(PolicyJob, "policy_jobs", given(locals()))


def apply_policy(
    *,
    cluster: int,
    proc: int,
    status: int,
    action: str,
    reason: str,
    code: int,
    subcode: int,
    run_id: int | None = None,
) -> Call[bool]:
    """Apply the verdict of a policy to a job; False if the job is not in ``status`` any more.

    With ``run_id`` also False if that run, on which the verdict was based, is over.
    """
    return value_of("apply_policy", given(locals()))


def objects_over(*, most: int = 200) -> Call[list[ObjectOver]]:
    """Objects in buckets that are to be deleted, with URLs to delete them; the oldest first."""
    return records_of(ObjectOver, "objects_over", given(locals()))


def objects_deleted(*, objects: Sequence[UUID], ns: Sequence[int]) -> Call[int]:
    """Note that objects were deleted."""
    return value_of("objects_deleted", given(locals()))


def postpone_objects(*, objects: Sequence[UUID], ns: Sequence[int]) -> Call[None]:
    """Note that a bucket refused to delete objects: they move behind the others."""
    return done("postpone_objects", given(locals()))


def bucket_probes() -> Call[list[BucketProbe]]:
    """For each bucket in use, a URL of an object that it never has, to probe it."""
    return records_of(BucketProbe, "bucket_probes")
