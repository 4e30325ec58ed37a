"""JOB_EXIT: the end of a run, and what becomes of its job.

HTCondor's reason ("exit", "evict") says less than the ad does, and neither says that fetchwork itself ended
the job: that is known here, and in the database. A report that can't be delivered goes to the spool, by the
agent or, should the agent not answer, by the hook.
"""

from __future__ import annotations

from typing import Any

from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import ClassAd
from fetchwork.codes import HoldCode
from fetchwork.errors import NOT_NOW, ClassAdError, FetchworkError, NotFound, one_line
from fetchwork.handlers import policy
from fetchwork.handlers.context import Answer, LiveRun, Task
from fetchwork.handlers.runad import RunKey, report, run_key
from fetchwork.hook.wire import Reply, Request

#: the starter, and so the slot, waits for this hook: an outage shall not cost it more than this for a call
DATABASE_S = 4.0
_REASONS = ("exit", "evict", "remove", "hold")


async def job_exit(task: Task) -> Answer:
    """Close the run with its report; the job's policy decides about the job."""
    ad = parse_old(task.request.body)
    key = run_key(ad)
    run = task.run(key.run_id)
    # who watches the starter must not take the run for lost meanwhile
    if run is not None:
        run.exiting += 1
    try:
        return await _finish(task, ad, key, run)
    except NotFound:
        if _ever_ran(report(ad)):
            raise
        # PostgreSQL forgot the claim in a crash, so the start was refused: there is nothing to be told
        task.runs.ended(task.context.session, key.run_id)
        return Answer(Reply(), {"slot": task.request.slot, "run": key.run_id, "outcome": "forgotten"})
    finally:
        if run is not None:
            run.exiting -= 1
            run.changed.set()


def _ever_ran(told: dict[str, Any]) -> bool:
    return any(name in told for name in ("JobPid", "ExitCode", "ExitSignal"))


async def _finish(task: Task, ad: ClassAd, key: RunKey, run: LiveRun | None) -> Answer:
    session = task.context.session
    told = report(ad)
    reason = task.request.arg
    if reason not in _REASONS:
        raise ClassAdError(f"argument is '{one_line(reason, 20)}'; allowed: {', '.join(_REASONS)}")
    fields: dict[str, Any] = {"slot": task.request.slot, "run": key.run_id}
    for name in ("ExitCode", "ExitSignal"):
        if name in told:
            fields[name] = told[name]
    if run is not None:
        fields["job"] = run.job
        if _is_anothers(run, task):
            # it was refused at the fence, and its end is not the run's
            return Answer(Reply(), {**fields, "outcome": "not_the_starter"})
        if run.unanswered is not None and "JobPid" not in told:
            await session.database.scalar(
                "withdraw",
                timeout_s=task.left(DATABASE_S),
                run_id=key.run_id,
                token=key.token,
                reason=f"start could not be confirmed: {run.unanswered}",
            )
            task.runs.ended(session, key.run_id)
            return Answer(Reply(), {**fields, "outcome": "withdrawn"})
        if run.ended_by_us is not None:
            reason = "evict"
            told["VacateReason"] = run.ended_by_us
    try:
        verdict = await _verdict(task, key, run, ad, told) if reason == "exit" else None
        outcome = await session.database.scalar(
            "finish",
            timeout_s=task.left(DATABASE_S),
            run_id=key.run_id,
            token=key.token,
            hook_reason=reason,
            report=told,
            verdict=verdict.to_json() if verdict else None,
        )
    except NOT_NOW as error:
        if task.spool is None:
            raise
        task.spool(_as_judged(task.request, reason))
        return Answer(Reply(), {**fields, "outcome": "spooled", "problem": str(error)})
    task.runs.ended(session, key.run_id)
    if verdict is not None:
        fields["policy"] = verdict.action
    return Answer(Reply(), {**fields, "outcome": outcome})


def _as_judged(request: Request, reason: str) -> Request:
    """The request for the spool, with the reason that this process, and maybe no later one, knows better."""
    return Request(request.name, request.body, keyword=request.keyword, arg=reason, slot=request.slot)


def _is_anothers(run: LiveRun, task: Task) -> bool:
    starter = task.caller.starter
    return run.starter is not None and starter is not None and starter != run.starter


async def _verdict(
    task: Task, key: RunKey, run: LiveRun | None, ad: ClassAd, told: dict[str, Any]
) -> policy.Verdict | None:
    has_policy = run.has_policy if run is not None else ad.get("FetchWorkHasPolicy") is True
    if not has_policy or not ("ExitCode" in told or "ExitSignal" in told):
        return None
    whole = await task.context.session.database.scalar(
        "run_policy", timeout_s=task.left(DATABASE_S), run_id=key.run_id, token=key.token
    )
    if whole is None:
        return None
    try:
        return policy.on_exit(whole, told)
    except FetchworkError as error:
        # the job ran, and its end must not be lost for its policy's sake
        return policy.Verdict("hold", f"policy can't be evaluated: {error}", HoldCode.JOB_POLICY_UNDEFINED)
