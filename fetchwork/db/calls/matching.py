"""Calls that find and claim a job for a slot, and calls that explain why a job waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fetchwork.db.calls.call import Call, JsonObject, Record, done, first_of, given, jsonb, one_of, records_of


@dataclass(frozen=True, slots=True)
class Candidate(Record):
    """An autocluster and a priority whose jobs may be waiting for a slot."""

    autocluster_id: int
    job_prio: int
    submitter: str
    #: a concurrency limit, or a limit of its queue or submitter, may block it
    limited: bool


@dataclass(frozen=True, slots=True)
class DemandRead(Record):
    """The jobs that wait for a host, or changes since an earlier answer: in lists of equal length."""

    #: the ``since`` of the next call
    seen: str
    whole: bool
    #: the number of live agents
    agents: int
    #: the host counts as a black hole, and is offered single probes only
    black_hole: bool
    autoclusters: list[int]
    prios: list[int]
    #: requested resources, None if the request is an expression
    cpus: list[float | None]
    memory_mib: list[float | None]
    disk_kib: list[float | None]
    gpus: list[float | None]
    #: slots that back off from an autocluster, and the seconds left
    resting_slots: list[str]
    resting_autoclusters: list[int]
    resting_s: list[float]


@dataclass(frozen=True, slots=True)
class AutoclusterAd(Record):
    """An autocluster: the attributes of its jobs that matching reads."""

    autocluster_id: int
    submitter: str
    owner: str
    queue: str
    ad: JsonObject


@dataclass(frozen=True, slots=True)
class SubmitterShare(Record):
    """A submitter's past and present use."""

    submitter: str
    prio_factor: float
    usage: float
    real_prio: float
    effective_prio: float
    running: int
    #: with a quota; None: it is in no such group
    accounting_group: str | None = None


@dataclass(frozen=True, slots=True)
class GroupFigures(Record):
    """Quotas and use of an accounting group, in weighted slots; "<none>": of submitters without a group."""

    name: str
    parent: str | None
    accept_surplus: bool
    autoregroup: bool
    subtree_quota: float
    #: for its own submitters
    quota: float
    #: slots that were freed within the last seconds and are still free are in it
    in_use: float
    subtree_in_use: float
    #: in use and by idle jobs of its own submitters
    requested: float
    #: slots that were free in the pool when they were counted, and not just freed; those of the host that are
    #: free now, and all of the host
    free: float = 0.0
    own_free: float = 0.0
    own_slots: float = 0.0
    #: seconds since they were counted
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Claimed(Record):
    """The result of the claim for one slot: a run that was just made of a waiting job, or a problem.

    Without ``slot_number``: a limit on starts keeps jobs of ``choice`` from starting for ``again_s`` more.
    """

    #: index of the slot in the call, from 1
    slot_number: int | None
    #: the reason that this slot's claim failed; then only ``choice`` and ``position`` are set beside it
    problem: str | None
    #: index in the call's autoclusters, from 1
    choice: int | None
    run_id: int
    token: UUID
    cluster_id: int
    proc_id: int
    #: the job's position in the queue of its autocluster and priority
    position: int | None
    owner: str
    has_policy: bool
    ad: JsonObject
    #: the queue's data about the job that the job may read
    facts: JsonObject
    #: seconds until the limit on starts allows the next one
    again_s: float | None


def report_faults(*, host_id: int, autoclusters: Sequence[int], reasons: Sequence[str]) -> Call[None]:
    """Make this host back off from autoclusters that it could not evaluate."""
    arguments = {"host_id": host_id, "autoclusters": list(autoclusters), "reasons": list(reasons)}
    return done("report_faults", arguments)


@dataclass(frozen=True, slots=True)
class WaitingAutocluster(Record):
    """An autocluster and a priority with waiting jobs."""

    autocluster_id: int
    job_prio: int
    queue: str
    submitter: str
    #: None if the reader may not see the job
    first_job: str | None
    position: int
    limited: bool
    #: the reason that no job of them can be claimed now
    blocked: str | None


@dataclass(frozen=True, slots=True)
class Prospects(Record):
    """The database's data about a waiting job."""

    autocluster_id: int
    job_prio: int
    queue: str
    draining: bool
    submitter: str
    waits: bool
    #: jobs of the same autocluster and priority before it; 1000 stands for 1000 or more
    ahead: int
    blocked: str | None
    not_before: datetime | None
    #: the start time of a job with a deferred start
    starts_at: datetime | None
    run_state: str | None
    run_slot: str | None
    #: the number of live agents
    agents: int
    #: it has a policy, which no process evaluates
    policy_rests: bool


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
    """Autoclusters that wait in the queues and whose numbers fit the slot's free resources."""
    return records_of(Candidate, "candidates", given(locals()))


def autocluster_ads(*, ids: Sequence[int]) -> Call[list[AutoclusterAd]]:
    """The autoclusters of these ids."""
    return records_of(AutoclusterAd, "autocluster_ads", given(locals()))


def shares() -> Call[list[SubmitterShare]]:
    """The past and present use of every submitter."""
    return records_of(SubmitterShare, "shares")


def read_groups(*, host_id: int, anew: bool) -> Call[list[GroupFigures]]:
    """The accounting groups with quotas, counted ``anew`` or at most a second ago."""
    return records_of(GroupFigures, "read_groups", given(locals()))


def read_demand(*, host_id: int, queues: Sequence[str], since: str) -> Call[DemandRead]:
    """Waiting jobs of the queues that could run on the host; with ``since`` the changes after that answer."""
    return one_of(DemandRead, "read_demand", given(locals()))


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
    """Claim a job for each of these slots, the first available of its choices.

    Further rows, without a slot, name the choices that a limit on starts keeps from starting now.

    A slot is ``{"slot": name, "exclusive": bool, "choices": [indices in autoclusters, from 1], "weights":
    [a number for each choice] or one number for all}``. Must not be repeated: a second call takes other jobs.
    """
    arguments = {**given(locals()), "slots": jsonb(list(slots))}
    return records_of(Claimed, "claim_many", arguments)


def waiting_autoclusters(*, queues: Sequence[str] | None = None) -> Call[list[WaitingAutocluster]]:
    """Autoclusters that wait in the queues (None: in all queues), and whether they are blocked."""
    wanted = None if queues is None else list(queues)
    return records_of(WaitingAutocluster, "waiting_autoclusters", {"queues": wanted})


def prospects(*, cluster: int, proc: int) -> Call[Prospects | None]:
    """The database's data about a waiting job; None if it does not exist or the caller may not see it."""
    return first_of(Prospects, "prospects", given(locals()))
