"""Calls by which a host's agent registers its host and keeps it alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fetchwork.db.calls.call import (
    Call,
    JsonObject,
    Record,
    done,
    given,
    jsonb,
    one_of,
    proof,
    records_of,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Greeting(Record):
    """The database's answer when a host registers."""

    host_id: int
    lease_s: float
    schema_version: int
    server_time: datetime
    max_ad_bytes: int


@dataclass(frozen=True, slots=True)
class UnwantedRun(Record):
    """A run that an agent takes for alive: the database wants it to 'end', or it is 'gone' there."""

    run_id: int
    action: str


@dataclass(frozen=True, slots=True)
class HostRun(Record):
    """A live run of a host, for an agent that comes back."""

    run_id: int
    token: UUID
    cluster_id: int
    proc_id: int
    state: str
    slot: str
    owner: str
    starter: str | None
    job_pid: int | None
    started_at: datetime | None
    job_start_date: int | None
    end_requested: str | None
    has_policy: bool


def hello(
    *,
    host: str,
    agent_version: str,
    agent_id: str | UUID,
    wanted_lease_s: float | None = None,
    location: str | None = None,
    replaces: Sequence[str] = (),
) -> Call[Greeting]:
    """Register a host: the lease of its agent begins.

    HostTaken while another agent has a live lease, unless ``replaces`` names that agent as dead.
    """
    return one_of(Greeting, "hello", given(locals()))


def beat(
    *,
    host_id: int,
    alive: Sequence[int],
    tokens: Sequence[str | UUID],
    agent_id: str | UUID,
) -> Call[list[UnwantedRun]]:
    """Renew the lease of a host and of its live runs; the answer names the runs that must end.

    ``alive`` and ``tokens`` are parallel lists. HostTaken if another agent has replaced this one.
    """
    return records_of(
        UnwantedRun,
        "beat",
        {
            "host_id": host_id,
            "alive": list(alive),
            "tokens": [proof(one) for one in tokens],
            "agent_id": agent_id,
        },
    )


def goodbye(*, host_id: int, agent_id: str | UUID) -> Call[None]:
    """End the lease of the agent's host, unless another agent has taken the host over."""
    return done("goodbye", given(locals()))


def report_slots(*, host_id: int, slots: Sequence[JsonObject]) -> Call[None]:
    """Report the states of a host's slots."""
    return done("report_slots", {"host_id": host_id, "slots": jsonb(list(slots))})


def host_runs(*, host_id: int) -> Call[list[HostRun]]:
    """The live runs of a host."""
    return records_of(HostRun, "host_runs", given(locals()))


def slot_is_free(*, host_id: int, slot: str) -> Call[int]:
    """A free slot asked for work: give up the runs that the database still has on it; their number."""
    return value_of("slot_is_free", given(locals()))
