"""An access point's calls for jobs of the scheduler universe, which it runs itself.

Such a run is started, updated and ended by the calls of every run (``start``, ``heartbeat``, ``finish``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fetchwork.db.calls.call import Call, JsonObject, Record, first_of, given, records_of


@dataclass(frozen=True, slots=True)
class SchedulerClaim(Record):
    """A job that an access point claimed, and its run."""

    run_id: int
    token: UUID
    cluster_id: int
    proc_id: int
    owner: str
    #: the whole job ad, in HTCondor's JSON form
    ad: JsonObject


@dataclass(frozen=True, slots=True)
class SchedulerRun(Record):
    """A live run of an access point."""

    run_id: int
    token: UUID
    cluster_id: int
    proc_id: int
    owner: str
    #: a ``fetchwork.run_state``
    state: str
    #: the process that passed the fence
    starter: str | None
    #: the requested end, if any: 'hold', 'remove' or 'vacate'
    end_requested: str | None


def claim_scheduler_job(*, access_point: str, max_each: int, lease_s: float) -> Call[SchedulerClaim | None]:
    """Claim the job that has waited longest; at most ``max_each`` jobs of one owner run at a time."""
    return first_of(SchedulerClaim, "claim_scheduler_job", given(locals()))


def tend_scheduler_runs(*, access_point: str, alive: Sequence[int]) -> Call[list[SchedulerRun]]:
    """Renew the leases of the runs in ``alive``; returns all live runs of this access point."""
    return records_of(SchedulerRun, "tend_scheduler_runs", given(locals()))
