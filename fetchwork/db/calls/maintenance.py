"""Calls that keep the whole queue in order: dead runs, counts, policy, preemption, old rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fetchwork.db.calls.call import Call, JsonObject, Record, done, one_of, records_of, value_of


@dataclass(frozen=True, slots=True)
class QueueMaintenance(Record):
    """What one round of maintenance did."""

    #: runs that were given up
    reaped: int
    #: jobs whose time to wait was over
    woken: int
    #: changes that were added to the counts
    folded: int


@dataclass(frozen=True, slots=True)
class Sequenced(Record):
    """Events that were put into the stream."""

    #: ``since`` of the caller's next call
    until: str | None
    #: how many
    sequenced: int


@dataclass(frozen=True, slots=True)
class ObjectOver(Record):
    """An object in a bucket that nobody needs any more: its name and number, and the URL to delete it."""

    bucket_id: int
    object: UUID
    n: int
    url: str


@dataclass(frozen=True, slots=True)
class BucketProbe(Record):
    """A bucket as the administrator named it, and a URL to see whether it answers and knows the key."""

    bucket: str
    url: str


@dataclass(frozen=True, slots=True)
class Lead(QueueMaintenance):
    """What the leader's round of maintenance did; an agent that does not lead did nothing."""

    leads: bool


@dataclass(frozen=True, slots=True)
class PolicyJob(Record):
    """A job that does not run and has a periodic policy."""

    cluster_id: int
    proc_id: int
    ad: JsonObject


def maintain_queue() -> Call[QueueMaintenance]:
    """Give up runs that fell silent, wake jobs whose wait is over, add up counts."""
    return one_of(QueueMaintenance, "maintain_queue")


def lead(*, agent_id: str | UUID, lead_s: float) -> Call[Lead]:
    """The same by one agent for all: the leader, until it has not called for ``lead_s`` seconds."""
    return one_of(Lead, "lead", {"agent_id": agent_id, "lead_s": lead_s})


def sends_notifications() -> Call[bool]:
    """Does the database send notifications? It sends none while PostgreSQL's queue of them fills up."""
    return value_of("sends_notifications")


def notify_agents() -> Call[None]:
    """Tell all agents to look at everything again."""
    return done("notify_agents")


def end_notification_reader(*, pid: int) -> Call[bool]:
    """End a session that keeps the queue of notifications full; False if the database ended none."""
    return value_of("end_notification_reader", {"pid": pid})


def sequence_events(*, since: str | None) -> Call[Sequenced]:
    """Put what was committed since the caller's last call into the stream of events, for all readers."""
    return one_of(Sequenced, "sequence_events", {"since": since})


def take_leader_task(*, name: str, every_s: float) -> Call[bool]:
    """True for one caller in each period, who does the task for all. Not to be repeated."""
    return value_of("take_leader_task", {"name": name, "every_s": every_s})


def preempt() -> Call[int]:
    """End running runs in favour of waiting jobs, where queues allow it; tells how many."""
    return value_of("preempt")


def maintain_tables() -> Call[None]:
    """Make the partitions of the days to come, and drop what is kept no longer."""
    return done("maintain_tables")


def resume_offers() -> Call[bool]:
    """Let jobs be claimed again though hosts have not said what runs on them; False if none waited."""
    return value_of("resume_offers")


def policy_jobs(*, after_cluster: int, after_proc: int, page: int) -> Call[list[PolicyJob]]:
    """The next page of the jobs that don't run and have a periodic policy."""
    return records_of(
        PolicyJob,
        "policy_jobs",
        {"after_cluster": after_cluster, "after_proc": after_proc, "page": page},
    )


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
    """Do what a policy says of a job; False if the job is not in ``status`` any more.

    With ``run_id`` also if that run of it is over, of which it was judged.
    """
    return value_of(
        "apply_policy",
        {
            "cluster": cluster,
            "proc": proc,
            "status": status,
            "action": action,
            "reason": reason,
            "code": code,
            "subcode": subcode,
            "run_id": run_id,
        },
    )


def objects_over(*, most: int = 200) -> Call[list[ObjectOver]]:
    """Objects in buckets that are to be deleted, with URLs to do so; the oldest of them."""
    return records_of(ObjectOver, "objects_over", {"most": most})


def objects_deleted(*, objects: Sequence[UUID], ns: Sequence[int]) -> Call[int]:
    """Note that objects are deleted."""
    return value_of("objects_deleted", {"objects": list(objects), "ns": list(ns)})


def postpone_objects(*, objects: Sequence[UUID], ns: Sequence[int]) -> Call[None]:
    """Note that a bucket refused to delete objects: they come behind the others."""
    return done("postpone_objects", {"objects": list(objects), "ns": list(ns)})


def bucket_probes() -> Call[list[BucketProbe]]:
    """A URL for each bucket that is in use, with which it can be asked for an object that it never has."""
    return records_of(BucketProbe, "bucket_probes")
