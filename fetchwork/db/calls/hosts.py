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
    first_of,
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


@dataclass(frozen=True, slots=True)
class RunOrder(Record):
    """An order about a run that an agent takes for alive.

    'end': end it; 'gone': the same, it is not its host's any more; 'suspend': stop its job; 'continue': let
    the job go on.
    """

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
    #: the first run of its chain; None: of that first run too, and of a run without a chain
    chain: int | None
    job_pid: int | None
    started_at: datetime | None
    job_start_date: int | None
    end_requested: str | None
    has_policy: bool


@dataclass(frozen=True, slots=True)
class Invited(Record):
    """An invitation that was made, and the role that a host logs in as to join by it."""

    number: int
    role: str
    database: str
    valid_until: datetime


@dataclass(frozen=True, slots=True)
class Invitation(Record):
    """An invitation; ``joined``: the hosts in the pool by it."""

    number: int
    hosts: str
    queues: list[str] | None
    uses: int
    used: int
    max_slots: int | None
    trusted: bool
    ephemeral: bool
    owners: str | None
    valid_until: datetime
    invited_by: str
    ended_at: datetime | None
    joined: int


@dataclass(frozen=True, slots=True)
class Joined(Record):
    """The identity that a host got: its role, and the number of its password."""

    host_id: int
    role: str
    generation: int
    valid_until: datetime


@dataclass(frozen=True, slots=True)
class Renewed(Record):
    """The present state of an identity; ``copied``: another host has it too."""

    generation_now: int
    valid_until: datetime
    copied: bool


@dataclass(frozen=True, slots=True)
class Identity(Record):
    """A host that joined; ``state``: 'valid', 'over', 'copied' or 'revoked'."""

    host: str
    state: str
    invitation: int
    agent_version: str | None
    location: str | None
    seen_at: datetime
    joined_at: datetime
    valid_until: datetime


@dataclass(frozen=True, slots=True)
class OwnHost(Record):
    """The state of the session's own host; ``slots`` have ``name``, ``state`` and ``ago_s`` of a fetch."""

    host: str
    copied: bool
    valid_until: datetime
    max_ad_bytes: float
    claims_wait: bool
    black_hole: str | None
    queues: list[str]
    owners: list[str]
    slots: list[JsonObject]
    policies_rest: bool


@dataclass(frozen=True, slots=True)
class Revoked(Record):
    """A revoked host's invitation, whether others may still join by it, and its sessions that go on."""

    invitation: int
    open: bool
    sessions: int


def hello(
    *,
    host: str,
    agent_version: str,
    agent_id: str | UUID,
    wanted_lease_s: float | None = None,
    location: str | None = None,
    replaces: Sequence[str] = (),
    signals_jobs: bool = False,
) -> Call[Greeting]:
    """Register a host: the lease of its agent begins. ``signals_jobs``: the agent may stop jobs.

    HostTaken while another agent has a live lease, unless ``replaces`` names that agent as dead.
    """
    return one_of(Greeting, "hello", given(locals()))


def beat(
    *,
    host_id: int,
    alive: Sequence[int],
    tokens: Sequence[str | UUID],
    agent_id: str | UUID,
) -> Call[list[RunOrder]]:
    """Renew the lease of a host and of its live runs; the answer says what to do with them.

    ``alive`` and ``tokens`` are parallel lists. HostTaken if another agent has replaced this one.
    """
    return records_of(
        RunOrder,
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


def invite_host(
    *,
    verifier: str,
    hosts: str = "*",
    queues: Sequence[str] | None = None,
    uses: int = 1,
    valid_s: float = 3600,
    max_slots: int | None = None,
    trusted: bool = False,
    ephemeral: bool = False,
    owners: str | None = None,
) -> Call[Invited]:
    """Make an invitation for hosts whose names fit ``hosts``, or access points for ``owners``."""
    return one_of(Invited, "invite_host", given(locals()))


def invitations() -> Call[list[Invitation]]:
    """The invitations, the latest first."""
    return records_of(Invitation, "invitations")


def uninvite(*, number: int) -> Call[bool]:
    """End an invitation; False if it has ended."""
    return value_of("uninvite", given(locals()))


def identities() -> Call[list[Identity]]:
    """The hosts that joined, by name."""
    return records_of(Identity, "identities")


def join_host(*, host: str, verifier: str) -> Call[Joined]:
    """Get an identity for a host, as the role of an invitation; repeatable with the same verifier."""
    return one_of(Joined, "join_host", given(locals()))


def renew_identity(*, generation: int, verifier: str) -> Call[Renewed]:
    """Renew the identity of the session's host; repeatable with the same verifier."""
    return one_of(Renewed, "renew_identity", given(locals()))


def own_host_state() -> Call[OwnHost]:
    """The state of the joined host whose session this is."""
    return one_of(OwnHost, "own_host_state")


def revoke_host(*, host: str) -> Call[Revoked | None]:
    """End the identity of a host; None if it has none."""
    return first_of(Revoked, "revoke_host", given(locals()))


def admit_host(*, host: str) -> Call[bool]:
    """Let a host in again whose identity is over or was copied; False if it has none."""
    return value_of("admit_host", given(locals()))


def forget_host(*, host: str) -> Call[bool]:
    """Delete a host that is gone, with its identity; False if the database does not know it.

    HostTaken while its agent has a live lease or it has live runs.
    """
    return value_of("forget_host", given(locals()))


def require_join(*, required: bool = True, forced: bool = False) -> Call[list[str]]:
    """Refuse hosts that share a role, or serve them again; the roles that they may share.

    DatabaseRefused while hosts beat that have not joined, unless ``forced``.
    """
    return value_of("require_join", given(locals()))
