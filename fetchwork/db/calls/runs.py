"""Calls that move a run from its offer to its end. The token authorizes the caller.

The token itself does not travel: PostgreSQL may log statements and parameters, and the token authorizes a
hook, so it must not get into a log. ``proof`` of the token travels, which shows that its sender knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from fetchwork.codes import HoldCode
from fetchwork.db.calls.call import (
    Call,
    JsonObject,
    Record,
    given,
    jsonb,
    one_of,
    proof,
    records_of,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Beat(Record):
    """The answer to an update of a run.

    ``action``: None if the run goes on, 'end' if it must end, 'late' if its end is known already, 'gone' if
    the run no longer belongs to the job.
    """

    action: str | None
    reason: str | None
    #: the requested end: 'hold', 'remove' or 'vacate'
    requested: str | None = None
    #: seconds since the job was first told to end
    signalled_s: float | None = None
    #: the job's own signal for this end, from its ad
    kill_sig: str | None = None
    #: seconds from that signal to SIGKILL, if the job is to end
    max_vacate_s: float | None = None


def accept(*, run_id: int, token: str | UUID) -> Call[bool]:
    """The startd accepts the run; False if the run is over."""
    return value_of("accept", given(locals()))


def run_owner(*, run_id: int, token: str | UUID) -> Call[str | None]:
    """The Owner of a run's job, live or ended; None if there is no such run, or the token is another's."""
    return value_of("run_owner", given(locals()))


def reject(*, run_id: int, token: str | UUID, reason: str, rest: bool = True) -> Call[bool]:
    """The startd refuses the run; with ``rest`` the slot backs off from such jobs for a while."""
    return value_of("reject", given(locals()))


def start(
    *, run_id: int, token: str | UUID, starter: str | None, slot: str | None = None
) -> Call[str | None]:
    """The fence before the job's start: None to go on, else the reason that the job must not start."""
    return value_of("start", given(locals()))


def refuse_start(*, run_id: int, token: str | UUID, reason: str, code: int) -> Call[bool]:
    """The host can't start the job, which counts as a try; a job at its last try is held with ``code``."""
    return value_of("refuse_start", given(locals()))


def fail_inputs(*, run_id: int, token: str | UUID, reason: str, code: int, subcode: int) -> Call[bool]:
    """The job's inputs can't be fetched: the run ends, and its job is Held with this code."""
    return value_of("fail_inputs", given(locals()))


def start_failed(*, run_id: int, token: str | UUID, reason: str, code: int, subcode: int) -> Call[bool]:
    """The job can't start, and a shadow would hold it for that reason: hold it. False if the run is over."""
    return value_of("start_failed", given(locals()))


def withdraw(
    *,
    run_id: int,
    token: str | UUID,
    reason: str,
    hold_reason: str | None = None,
    code: int = HoldCode.FAILED_TO_CREATE_PROCESS,
) -> Call[bool]:
    """Take back a run that could not be handed over; with ``hold_reason`` its job is Held."""
    return value_of("withdraw", given(locals()))


def note_match(*, run_id: int, token: str | UUID, remembered: JsonObject) -> Call[bool]:
    """Keep the slot's values that an offer put into the job's ad; False if the run is over."""
    return value_of("note_match", given(locals()))


def retry_with_more(
    *, run_id: int, token: str | UUID, changes: Mapping[str, int], reason: str, code: int, subcode: int
) -> Call[bool]:
    """Let a job that used too much run again, with larger requests; False if its run ends anyway."""
    return value_of("retry_with_more", given(locals()))


def heartbeat(*, run_id: int, token: str | UUID, report: JsonObject) -> Call[Beat]:
    """Store an update of a run; the answer says whether the job has to end."""
    return one_of(Beat, "heartbeat", given(locals()))


@dataclass(frozen=True, slots=True)
class Reported(Record):
    """The reports of a ``report_runs`` that are done, as numbers from 1; None if none were given."""

    accepted: list[int] | None
    started: list[int] | None
    renewed: list[int] | None
    finished: list[int] | None


def report_runs(
    *,
    accept_ids: Sequence[int],
    accept_tokens: Sequence[str | UUID],
    accepted_s: Sequence[float],
    start_ids: Sequence[int],
    start_tokens: Sequence[str | UUID],
    starters: Sequence[str | None],
    slots: Sequence[str | None],
    started_accepted_s: Sequence[float | None],
    update_ids: Sequence[int],
    update_tokens: Sequence[str | UUID],
    updates: Sequence[JsonObject],
    exit_ids: Sequence[int],
    exit_tokens: Sequence[str | UUID],
    exits: Sequence[JsonObject],
) -> Call[Reported]:
    """Report several runs in one transaction, as parallel lists; uncommon cases are left undone.

    ``accepted_s`` and ``started_accepted_s`` are the seconds since the startd's accept.
    """
    return one_of(
        Reported,
        "report_runs",
        {
            "accept_ids": list(accept_ids),
            "accept_tokens": [proof(one) for one in accept_tokens],
            "accepted_s": list(accepted_s),
            "start_ids": list(start_ids),
            "start_tokens": [proof(one) for one in start_tokens],
            "starters": list(starters),
            "slots": list(slots),
            "started_accepted_s": list(started_accepted_s),
            "update_ids": list(update_ids),
            "update_tokens": [proof(one) for one in update_tokens],
            "updates": [dict(one) for one in updates],
            "exit_ids": list(exit_ids),
            "exit_tokens": [proof(one) for one in exit_tokens],
            "exits": [dict(one) for one in exits],
        },
    )


def run_policy(*, run_id: int, token: str | UUID) -> Call[JsonObject | None]:
    """The whole ad of a run's job, for its policy; None if the run is over."""
    return value_of("run_policy", given(locals()))


def finish(
    *,
    run_id: int,
    token: str | UUID,
    hook_reason: str,
    report: JsonObject,
    verdict: JsonObject | None = None,
) -> Call[str]:
    """Close a run with its report, and move its job as the verdict of its policy says; the outcome."""
    return value_of("finish", given(locals()))


def starter_gone(*, run_id: int, token: str | UUID, problem: str | None = None) -> Call[bool]:
    """The starter ended without a report: the run is lost; False if it was over before.

    ``problem`` is the starter's own account of the end.
    """
    return value_of("starter_gone", given(locals()))


@dataclass(frozen=True, slots=True)
class WatchedOutput(Record):
    """A run whose output is watched, and the positions up to which it was shipped; None if nothing was."""

    run_id: int
    stdout_at: int | None
    stderr_at: int | None


def watched_output(*, host_id: int) -> Call[list[WatchedOutput]]:
    """The runs of a host whose output is being watched."""
    return records_of(WatchedOutput, "watched_output", given(locals()))


def ship_output(
    *,
    run_id: int,
    token: str | UUID,
    stdout_at: int | None = None,
    stdout: bytes | None = None,
    stderr_at: int | None = None,
    stderr: bytes | None = None,
    ended: bool = False,
    problem: str | None = None,
) -> Call[bool]:
    """Ship new output of a run, 64 KiB of each stream at most; returns whether it is still being watched."""
    return value_of("ship_output", given(locals()))


@dataclass(frozen=True, slots=True)
class Next(Record):
    """The answer to one slot of a ``next_runs``: whether its run has ended, and the run that it got."""

    #: index of the slot in the call, from 1
    slot_number: int
    #: False: the end is not the common one, and has to be reported by ``finish``
    ended: bool
    #: index in the call's autoclusters, from 1; None without a run
    choice: int | None
    #: the reason that the claim failed; then only ``choice`` and ``position`` are set beside it
    problem: str | None
    #: None: there is no job for the slot
    run_id: int | None
    token: UUID | None
    cluster_id: int | None
    proc_id: int | None
    #: the job's position in the queue of its autocluster and priority
    position: int | None
    owner: str | None
    has_policy: bool | None
    ad: JsonObject | None
    #: the queue's data about the job that the job may read
    facts: JsonObject | None


def next_runs(
    *,
    host_id: int,
    end_ids: Sequence[int],
    end_tokens: Sequence[str | UUID],
    reports: Sequence[JsonObject],
    autoclusters: Sequence[int],
    prios: Sequence[int],
    hints: Sequence[int],
    slots: Sequence[JsonObject],
    compared: Sequence[str],
    lease_s: float,
) -> Call[list[Next]]:
    """End the runs of slots with chains, and start the next job of each.

    A slot is as in ``matching.claim_many``, and has "end" (index in ``end_ids``, from 1, or None), "starter",
    "chain" and "same", the values of the attributes ``compared`` that its job must have. Must not be
    repeated: a second call takes other jobs.
    """
    arguments = {
        **given(locals()),
        "end_ids": list(end_ids),
        "end_tokens": [proof(one) for one in end_tokens],
        "reports": [dict(one) for one in reports],
        "slots": jsonb(list(slots)),
    }
    return records_of(Next, "next_runs", arguments)
