"""Calls that find and claim a job for a slot, and those that explain why a job waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fetchwork.db.calls.call import Call, JsonObject, Record, done, first_of, jsonb, one_of, records_of


@dataclass(frozen=True, slots=True)
class Candidate(Record):
    """An autocluster and a priority at which jobs of it may wait for a slot."""

    autocluster_id: int
    job_prio: int
    submitter: str
    #: a concurrency limit, or one of its queue or submitter, may stand against it
    limited: bool


@dataclass(frozen=True, slots=True)
class DemandRead(Record):
    """What waits for a host, or came since an earlier answer: in lists of one length."""

    #: what the next call may ask for news since
    seen: str
    whole: bool
    #: how many agents are alive
    agents: int
    #: the host is taken for one, and offered nothing but single probes
    black_hole: bool
    autoclusters: list[int]
    prios: list[int]
    #: what is asked for, None where that is an expression
    cpus: list[float | None]
    memory_mib: list[float | None]
    disk_kib: list[float | None]
    gpus: list[float | None]
    #: slots that are not offered an autocluster for so many seconds
    resting_slots: list[str]
    resting_autoclusters: list[int]
    resting_s: list[float]


@dataclass(frozen=True, slots=True)
class AutoclusterAd(Record):
    """An autocluster: what matching looks at of its jobs."""

    autocluster_id: int
    submitter: str
    owner: str
    queue: str
    ad: JsonObject


@dataclass(frozen=True, slots=True)
class SubmitterShare(Record):
    """What a submitter used and uses now."""

    submitter: str
    prio_factor: float
    usage: float
    real_prio: float
    effective_prio: float
    running: int


@dataclass(frozen=True, slots=True)
class Claimed(Record):
    """What came of the claim for one slot: a run that was just made of a waiting job, or a problem."""

    #: index of the slot in the call, from 1
    slot_number: int
    #: why this slot's claim failed; of the rest only ``choice`` and ``position`` are told then
    problem: str | None
    #: index in the call's autoclusters, from 1
    choice: int | None
    run_id: int
    token: UUID
    cluster_id: int
    proc_id: int
    #: where the job stood in the queue of its autocluster and priority
    position: int | None
    owner: str
    has_policy: bool
    ad: JsonObject
    #: what the queue keeps of the job, and a job may read of itself
    facts: JsonObject


def report_faults(*, host_id: int, autoclusters: Sequence[int], reasons: Sequence[str]) -> Call[None]:
    """Let autoclusters that this host could not evaluate rest on it."""
    arguments = {"host_id": host_id, "autoclusters": list(autoclusters), "reasons": list(reasons)}
    return done("report_faults", arguments)


@dataclass(frozen=True, slots=True)
class WaitingAutocluster(Record):
    """An autocluster and a priority at which jobs of it wait."""

    autocluster_id: int
    job_prio: int
    queue: str
    submitter: str
    #: None where the job is not the reader's to see
    first_job: str | None
    position: int
    limited: bool
    #: why none of them can be claimed now
    blocked: str | None


@dataclass(frozen=True, slots=True)
class Prospects(Record):
    """What the database knows of a job that waits."""

    autocluster_id: int
    job_prio: int
    queue: str
    draining: bool
    submitter: str
    waits: bool
    #: jobs of the same autocluster and priority before it; 1000 stands for any more
    ahead: int
    blocked: str | None
    not_before: datetime | None
    #: when a job that waits for its time is to start
    starts_at: datetime | None
    run_state: str | None
    run_slot: str | None
    #: agents that are alive
    agents: int


def candidates(
    *,
    host_id: int,
    slot: str,
    queues: Sequence[str],
    cpus: float | None = None,
    memory_mib: float | None = None,
    disk_kib: float | None = None,
    gpus: float | None = None,
) -> Call[list[Candidate]]:
    """What waits in the queues and is not too large for what is left of a slot, by the numbers."""
    return records_of(
        Candidate,
        "candidates",
        {
            "host_id": host_id,
            "slot": slot,
            "queues": list(queues),
            "cpus": cpus,
            "memory_mib": memory_mib,
            "disk_kib": disk_kib,
            "gpus": gpus,
        },
    )


def autocluster_ads(*, ids: Sequence[int]) -> Call[list[AutoclusterAd]]:
    """The autoclusters of these ids."""
    return records_of(AutoclusterAd, "autocluster_ads", {"ids": list(ids)})


def shares() -> Call[list[SubmitterShare]]:
    """What every submitter used and uses now."""
    return records_of(SubmitterShare, "shares")


def read_demand(*, host_id: int, queues: Sequence[str], since: str) -> Call[DemandRead]:
    """What waits in the queues and could run on the host; with ``since`` what came after that answer."""
    return one_of(DemandRead, "read_demand", {"host_id": host_id, "queues": list(queues), "since": since})


def claim_many(
    *,
    host_id: int,
    autoclusters: Sequence[int],
    prios: Sequence[int],
    hints: Sequence[int],
    slots: Sequence[JsonObject],
    offer_s: float,
    lease_s: float,
) -> Call[list[Claimed]]:
    """Take a job for each of these slots, the first that can be had of its choices.

    A slot is ``{"slot": name, "exclusive": bool, "choices": [indices in autoclusters, from 1], "weights":
    [of each] or one number for all}``. Not to be repeated: a second call takes other jobs.
    """
    return records_of(
        Claimed,
        "claim_many",
        {
            "host_id": host_id,
            "autoclusters": list(autoclusters),
            "prios": list(prios),
            "hints": list(hints),
            "slots": jsonb(list(slots)),
            "offer_s": offer_s,
            "lease_s": lease_s,
        },
    )


def waiting_autoclusters(*, queues: Sequence[str] | None = None) -> Call[list[WaitingAutocluster]]:
    """What waits in the queues (in all, without), and whether it is blocked."""
    wanted = None if queues is None else list(queues)
    return records_of(WaitingAutocluster, "waiting_autoclusters", {"queues": wanted})


def prospects(*, cluster: int, proc: int) -> Call[Prospects | None]:
    """What the database knows of a job that waits; None if it is not the caller's to see, or not there."""
    return first_of(Prospects, "prospects", {"cluster": cluster, "proc": proc})
