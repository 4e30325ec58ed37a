"""A job's policy expressions, with HTCondor's meaning: for fetched work no daemon of HTCondor evaluates them.

HTCondor's schedd and shadow evaluate them (``condor_utils/user_job_policy.cpp``); the startd and starter of a
fetched job do not. This module evaluates, in HTCondor's order:

- for a job in the queue, periodically: AllowedJobDuration and AllowedExecuteDuration (if it runs),
  TimerRemove, PeriodicHold, PeriodicRelease (if it is held), PeriodicVacate (if it runs), PeriodicRemove;
- at a job's exit: the same but for PeriodicVacate, then OnExitHold, then OnExitRemove;
- for a completed job that is still in the queue: LeaveJobInQueue, and nothing else.

A periodic expression that is undefined or an error does not fire. An OnExitRemove that is neither true nor
false holds the job, because it is unknown whether the job is done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fetchwork.classad.cost import check_cost
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import UNDEFINED, ClassAd, evaluate, format_expr, number, truth
from fetchwork.codes import HoldCode, JobStatus
from fetchwork.errors import ClassAdError


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision of a policy; ``action`` is a word of ``fetchwork.apply_policy`` and ``finish``."""

    action: str
    reason: str
    code: int = 0
    subcode: int = 0
    delay_s: float = 0.0
    #: attributes of the job's ad that change before it runs again: its requests
    changes: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, object]:
        """The verdict as an argument of ``fetchwork.finish``."""
        return asdict(self)


def read_ad(job_ad: Mapping[str, object], report: Mapping[str, object] | None = None) -> ClassAd:
    """Return the ad for the expressions: the job's ad in the queue, with its starter's report.

    An attribute that can't be read is left out: its job fails at more than its policy. Raises ClassAdError
    if evaluation would take for ever.
    """
    ad = ClassAd()
    for name, value in {**job_ad, **(report or {})}.items():
        try:
            ad.update(from_json({name: value}))
        except ClassAdError:
            continue
    check_cost(ad)
    return ad


def periodic(ad: ClassAd, status: int, now: float | None = None, *, at_exit: bool = False) -> Verdict | None:
    """Return the periodic policy's verdict on a job in JobStatus ``status``; None: no action.

    ``at_exit``: the job has just ended, so nothing can be vacated.
    """
    now = time.time() if now is None else now
    ad["JobStatus"] = status
    ad["CurrentTime"] = int(now)
    if status == JobStatus.COMPLETED:
        # as in the schedd, an undefined LeaveJobInQueue does not keep the job
        return None if _is_true(ad, "LeaveJobInQueue") else Verdict("leave", "LeaveJobInQueue is not true")
    if status in (JobStatus.RUNNING, JobStatus.SUSPENDED):
        for name, code, what in (
            ("AllowedJobDuration", HoldCode.JOB_DURATION_EXCEEDED, "job"),
            ("AllowedExecuteDuration", HoldCode.JOB_EXECUTE_EXCEEDED, "execute"),
        ):
            limit, start = _number(ad, name), _number(ad, "JobCurrentStartExecutingDate")
            if start is not None and name == "AllowedExecuteDuration":
                # as in the shadow, a job that saves checkpoints has so long for each
                start = max(start, _number(ad, "LastCkptTime") or start)
                # the time that it is allowed stands still while it is suspended
                start += _number(ad, "FetchWorkSuspendedTime") or 0.0
            if limit is not None and start is not None and now - start > limit:
                reason = f"The job exceeded allowed {what} duration of {_clock(limit)}"
                return Verdict("hold", reason, code)
    timer = _number(ad, "TimerRemove")
    if timer is not None and 0 <= timer < now:
        return Verdict("remove", "The job attribute TimerRemove expired")
    if status != JobStatus.HELD and _is_true(ad, "PeriodicHold"):
        return _hold(ad, "PeriodicHold")
    if status == JobStatus.HELD and _is_true(ad, "PeriodicRelease"):
        return Verdict("release", _reason(ad, "PeriodicRelease"))
    if status in (JobStatus.RUNNING, JobStatus.SUSPENDED) and not at_exit and _is_true(ad, "PeriodicVacate"):
        return Verdict("vacate", _reason(ad, "PeriodicVacate"))
    if _is_true(ad, "PeriodicRemove"):
        return Verdict("remove", _reason(ad, "PeriodicRemove"))
    return None


def on_exit(job_ad: Mapping[str, object], report: Mapping[str, object]) -> Verdict | None:
    """Return the policy's verdict on a job that ended with ``report``; None: it is complete."""
    ad = read_ad(job_ad, report)
    completions = (_number(ad, "NumJobCompletions") or 0) + 1
    # as in the shadow, this exit counts already
    ad["NumJobCompletions"] = int(completions)
    ad["RemoteWallClockTime"] = (_number(ad, "RemoteWallClockTime") or 0.0) + (
        _number(ad, "JobDuration") or 0.0
    )
    ad.setdefault("ExitBySignal", False)
    # a job that ends sooner than a periodic look comes is judged by these too
    verdict = periodic(ad, JobStatus.RUNNING, at_exit=True)
    if verdict is not None:
        return verdict
    if _is_true(ad, "OnExitHold"):
        return _hold(ad, "OnExitHold")
    if "OnExitRemove" not in ad:
        return None
    value = truth(evaluate(ad, "OnExitRemove"))
    if value is True:
        return None
    if value is None:
        return Verdict(
            "hold", _reason(ad, "OnExitRemove", "UNDEFINED", own=False), HoldCode.JOB_POLICY_UNDEFINED
        )
    return Verdict(
        "requeue", _reason(ad, "OnExitRemove", "FALSE", own=False), delay_s=_retry_delay(ad, completions)
    )


def _retry_delay(ad: ClassAd, completions: float) -> float:
    """FetchWorkRetryDelay, doubled with each retry up to FetchWorkMaxRetryDelay."""
    first = _number(ad, "FetchWorkRetryDelay") or 0.0
    longest = _number(ad, "FetchWorkMaxRetryDelay")
    delay: float = max(0.0, first) * 2.0 ** min(max(0.0, completions - 1), 30)
    return min(delay, longest if longest is not None and longest >= 0 else 86400.0)


def _hold(ad: ClassAd, name: str) -> Verdict:
    # HTCondor keeps a 32-bit integer
    subcode = max(-(2**31), min(2**31 - 1, _number(ad, f"{name}SubCode") or 0))
    return Verdict("hold", _reason(ad, name), HoldCode.JOB_POLICY, int(subcode))


def _reason(ad: ClassAd, name: str, result: str = "TRUE", *, own: bool = True) -> str:
    """Return the job's own reason, or HTCondor's words."""
    text = evaluate(ad, f"{name}Reason") if own else UNDEFINED
    if isinstance(text, str) and text:
        return text[:1000]
    expression = format_expr(ad.lookup(name))
    return f"The job attribute {name} expression '{expression[:500]}' evaluated to {result}"


def _is_true(ad: ClassAd, name: str) -> bool:
    return name in ad and truth(evaluate(ad, name)) is True


def _number(ad: ClassAd, name: str) -> float | None:
    return number(evaluate(ad, name)) if name in ad else None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}+{hours:02d}:{minutes:02d}:{rest:02d}"
