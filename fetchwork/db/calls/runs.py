"""Calls that move a run from its offer to its end. The token shows that the caller may.

It does not travel: PostgreSQL may log statements and parameters, and no log is a place for what a hook is
believed with. ``proof`` does, which shows that its sender knows the token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from fetchwork.codes import HoldCode
from fetchwork.db.calls.call import Call, JsonObject, Record, one_of, records_of, value_of


@lru_cache(maxsize=4096)
def proof(token: str | UUID) -> str:
    """What shows that one knows a run's token: its SHA-256, of which half is as long as a token.

    What is no token proves nothing, and PostgreSQL refuses it as it stands.
    """
    try:
        text = str(UUID(str(token)))
    except ValueError:
        return str(token)
    return str(UUID(hashlib.sha256(text.encode()).hexdigest()[:32]))


@dataclass(frozen=True, slots=True)
class Beat(Record):
    """The answer to an update of a run.

    ``action`` is None for a run that goes on, 'end' for one that must, 'late' where its end is known already,
    'gone' where the run is not the job's any more.
    """

    action: str | None
    reason: str | None
    #: how it shall end: 'hold', 'remove' or 'vacate'
    requested: str | None = None
    #: seconds since the job was first told to end
    signalled_s: float | None = None
    #: the job's own signal for this end, as its ad has it
    kill_sig: str | None = None
    #: seconds from its signal to SIGKILL, of a job that is to end
    max_vacate_s: float | None = None


def accept(*, run_id: int, token: str | UUID) -> Call[bool]:
    """The startd is willing to run it; False if the run is over."""
    return value_of("accept", {"run_id": run_id, "token": proof(token)})


def run_owner(*, run_id: int, token: str | UUID) -> Call[str | None]:
    """The Owner of the job of a run, live or ended; None if there is no such run, or the token is not its."""
    return value_of("run_owner", {"run_id": run_id, "token": proof(token)})


def reject(*, run_id: int, token: str | UUID, reason: str, rest: bool = True) -> Call[bool]:
    """The startd refuses it; with ``rest`` the slot is not offered such jobs for a while."""
    return value_of("reject", {"run_id": run_id, "token": proof(token), "reason": reason, "rest": rest})


def start(
    *, run_id: int, token: str | UUID, starter: str | None, slot: str | None = None
) -> Call[str | None]:
    """The fence before the job's start: None to go on, else why the job must not start."""
    return value_of("start", {"run_id": run_id, "token": proof(token), "starter": starter, "slot": slot})


def refuse_start(*, run_id: int, token: str | UUID, reason: str, code: int) -> Call[bool]:
    """The host can't start the job: that counts as a try; ``code`` is the hold code if it was the last."""
    return value_of("refuse_start", {"run_id": run_id, "token": proof(token), "reason": reason, "code": code})


def fail_inputs(*, run_id: int, token: str | UUID, reason: str, code: int, subcode: int) -> Call[bool]:
    """The job's inputs did not come: the run ends, and its job is Held with this code."""
    return value_of(
        "fail_inputs",
        {"run_id": run_id, "token": proof(token), "reason": reason, "code": code, "subcode": subcode},
    )


def start_failed(*, run_id: int, token: str | UUID, reason: str, code: int, subcode: int) -> Call[bool]:
    """The job can't start, and a shadow would hold it for that: it is Held. False if the run is over."""
    return value_of(
        "start_failed",
        {"run_id": run_id, "token": proof(token), "reason": reason, "code": code, "subcode": subcode},
    )


def withdraw(
    *,
    run_id: int,
    token: str | UUID,
    reason: str,
    hold_reason: str | None = None,
    code: int = HoldCode.FAILED_TO_CREATE_PROCESS,
) -> Call[bool]:
    """Take back a run that could not be handed over; with ``hold_reason`` its job is Held."""
    return value_of(
        "withdraw",
        {
            "run_id": run_id,
            "token": proof(token),
            "reason": reason,
            "hold_reason": hold_reason,
            "code": code,
        },
    )


def note_match(*, run_id: int, token: str | UUID, remembered: JsonObject) -> Call[bool]:
    """Keep in the job's ad what an offer put into it of the slot's; False if the run is over."""
    return value_of("note_match", {"run_id": run_id, "token": proof(token), "remembered": dict(remembered)})


def retry_with_more(
    *, run_id: int, token: str | UUID, changes: Mapping[str, int], reason: str, code: int, subcode: int
) -> Call[bool]:
    """Let a job that used too much run again, asking for more; False if its run ends anyway."""
    return value_of(
        "retry_with_more",
        {
            "run_id": run_id,
            "token": proof(token),
            "changes": dict(changes),
            "reason": reason,
            "code": code,
            "subcode": subcode,
        },
    )


def heartbeat(*, run_id: int, token: str | UUID, report: JsonObject) -> Call[Beat]:
    """Write an update of a run down; the answer says whether the job has to end."""
    return one_of(Beat, "heartbeat", {"run_id": run_id, "token": proof(token), "report": dict(report)})


@dataclass(frozen=True, slots=True)
class Reported(Record):
    """Which runs of a ``report_runs`` are done with: numbers in each list, from 1; None: none given."""

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
    """Report several runs in one transaction, as parallel lists; what can't be done at once is left undone.

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
    return value_of("run_policy", {"run_id": run_id, "token": proof(token)})


def finish(
    *,
    run_id: int,
    token: str | UUID,
    hook_reason: str,
    report: JsonObject,
    verdict: JsonObject | None = None,
) -> Call[str]:
    """Close a run with its report, and decide about its job as its policy's verdict says; the outcome."""
    return value_of(
        "finish",
        {
            "run_id": run_id,
            "token": proof(token),
            "hook_reason": hook_reason,
            "report": dict(report),
            "verdict": None if verdict is None else dict(verdict),
        },
    )


def starter_gone(*, run_id: int, token: str | UUID, problem: str | None = None) -> Call[bool]:
    """The starter ended without a report: the run is lost; False if it was over.

    ``problem`` is what the starter wrote down of it.
    """
    return value_of("starter_gone", {"run_id": run_id, "token": proof(token), "problem": problem})


@dataclass(frozen=True, slots=True)
class WatchedOutput(Record):
    """A run whose output is watched, and the position behind what was shipped; None where nothing was."""

    run_id: int
    stdout_at: int | None
    stderr_at: int | None


def watched_output(*, host_id: int) -> Call[list[WatchedOutput]]:
    """The runs of a host whose output somebody watches."""
    return records_of(WatchedOutput, "watched_output", {"host_id": host_id})


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
    """What a run has written since, 64 KiB of each stream at most; whether somebody still watches."""
    return value_of(
        "ship_output",
        {
            "run_id": run_id,
            "token": proof(token),
            "stdout_at": stdout_at,
            "stdout": stdout,
            "stderr_at": stderr_at,
            "stderr": stderr,
            "ended": ended,
            "problem": problem,
        },
    )
