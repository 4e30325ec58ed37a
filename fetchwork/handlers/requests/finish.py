"""JOB_EXIT: the end of a run, and the verdict on its job.

HTCondor's reason ("exit", "evict") says less than the ad does, and neither says that fetchwork itself ended
the job: this process and the database know that. The agent spools a report that can't be delivered; if the
agent does not answer, the hook does.
"""

from __future__ import annotations

import contextlib
from typing import cast

from fetchwork.db.calls import runs
from fetchwork.errors import NOT_NOW, ClassAdError, DatabaseUnavailable, FetchworkError, NotFound, one_line
from fetchwork.handlers.context import Answer, ExitOutcome, Subject, Task
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.overuse import killed_for_memory
from fetchwork.handlers.requests.start import could_not_start
from fetchwork.handlers.retrying import or_with_more
from fetchwork.handlers.runad import (
    Report,
    RunKey,
    parked,
    read_starter_ad,
    report,
    run_key,
    slot_name,
    transfer_failure,
)
from fetchwork.handlers.starterad import StarterAd
from fetchwork.hook.wire import Request
from fetchwork.matchmaker.messages import Job, Judgement
from fetchwork.matchmaker.policy import Verdict
from fetchwork.matchmaker.processes import MatchmakerUnavailable

#: seconds for a call; short, since the starter and thus the slot waits for this hook during an outage
DATABASE_S = 4.0
_REASONS = ("exit", "evict", "remove", "hold")


async def job_exit(task: Task) -> Answer:
    """Close the run with its report; the job's policy decides about the job."""
    ad = read_starter_ad(task.request.body)
    key = run_key(ad)
    run = await task.own_run(key)
    directory = parked(ad)
    if directory is not None:
        return await _parked(task, key, run, directory)
    task.failure = task.failure or transfer_failure(ad)
    try:
        with run.reporting() if run is not None else contextlib.nullcontext():
            return await _finish(task, ad, key, run)
    except NotFound:
        if _ever_ran(report(ad)):
            raise
        # PostgreSQL forgot the claim in a crash, so the start was refused: there is nothing to report
        _over(task, key, run)
        return Subject(task.request.slot, key.run_id).answer("forgotten")


async def _parked(task: Task, key: RunKey, run: LiveRun | None, directory: str) -> Answer:
    """Hand over a report that is staged with the job's outputs; both are uploaded together."""
    if task.files is None:
        raise DatabaseUnavailable("no agent: files travel by one only")
    await task.files.parked(task, key, directory)
    job = run.job if run is not None else None
    return Subject(task.request.slot, key.run_id, job).answer("parked", None)


def _over(task: Task, key: RunKey, run: LiveRun | None) -> None:
    """Forget a run that is over, and remove its starter log, even if this process did not know the run."""
    task.runs.ended(task.context.session, key.run_id)
    if run is None:
        task.context.forget_starter_log(key.run_id, key.token)


def _ever_ran(exit_report: Report) -> bool:
    return any(name in exit_report for name in ("JobPid", "ExitCode", "ExitSignal"))


async def _finish(task: Task, ad: StarterAd, key: RunKey, run: LiveRun | None) -> Answer:
    session = task.context.session
    exit_report = report(ad)
    reason = task.request.arg
    if reason not in _REASONS:
        raise ClassAdError(f"argument is '{one_line(reason, 20)}'; allowed: {', '.join(_REASONS)}")
    subject = Subject(task.request.slot, key.run_id, run.job if run is not None else None)
    details: dict[str, object] = {
        name: exit_report[name] for name in ("ExitCode", "ExitSignal") if name in exit_report
    }
    if run is not None:
        if _is_of_another_starter(run, task):
            # PREPARE_JOB refused that starter, so its end is not the run's
            return subject.answer("not_the_starter", None, **details)
        if run.state == "killed":
            reason = "evict"
            exit_report["VacateReason"] = run.cause or ""
    try:
        if run is not None and run.state == "unconfirmed" and "JobPid" not in exit_report:
            await session.database.run(
                runs.withdraw(
                    run_id=key.run_id,
                    token=key.token,
                    reason=f"start could not be confirmed: {run.cause}",
                ),
                timeout_s=task.left(DATABASE_S),
            )
            _over(task, key, run)
            return subject.answer("withdrawn", None, **details)
        if not _ever_ran(exit_report) and await _could_not_start(task, key, run, exit_report):
            _over(task, key, run)
            return subject.answer("could_not_start", None)
        verdict = None
        if reason == "exit":
            verdict = _killed_for_memory(run, exit_report)
            if run is not None and verdict is not None:
                verdict = await or_with_more(run, verdict, task.left(DATABASE_S))
            verdict = verdict or await _verdict(task, key, run, ad, exit_report)
        outcome = await session.reports.finish(
            run_id=key.run_id,
            token=key.token,
            hook_reason=reason,
            report=exit_report,
            verdict=verdict.to_json() if verdict else None,
            timeout_s=task.left(DATABASE_S),
        )
    except NOT_NOW as error:
        if task.spool is None:
            raise
        try:
            await task.spool(_as_judged(task.request, reason))
        except FetchworkError as problem:
            # the hook still has the report, and may send it again
            raise DatabaseUnavailable(f"{error}; the report can't be kept until then: {problem}") from None
        return subject.answer("spooled", None, problem=str(error), **details)
    _over(task, key, run)
    if verdict is not None:
        details["policy"] = verdict.action
    # the SQL function returns the words of the type
    return subject.answer(cast(ExitOutcome, outcome), None, **details)


def _killed_for_memory(run: LiveRun | None, exit_report: Report) -> Verdict | None:
    """The hold of a job that the kernel killed for memory: HTCondor's own does not reach a fetched job."""
    if run is None or not run.memory_capped:
        return None
    used = exit_report.get("MemoryUsage")
    used_mib = max(run.memory_used_mib, used if isinstance(used, int | float) else 0)
    return killed_for_memory(run.memory_mib, used_mib, exit_report.get("ExitSignal"))


async def _could_not_start(task: Task, key: RunKey, run: LiveRun | None, exit_report: Report) -> bool:
    """Hold a job that did not start, if the starter's log has the reason; return whether it is held."""
    fault = await task.context.starter_fault(key.run_id, key.token)
    if fault is None:
        return False
    slot = slot_name(task.request.slot, run.slot if run is not None else "") or task.context.session.host
    if fault.code is None:
        exit_report["FetchWorkProblem"] = fault.reason(slot)
        return False
    return await task.context.session.database.run(
        could_not_start(key.run_id, key.token, fault, slot), timeout_s=task.left(DATABASE_S)
    )


def _as_judged(request: Request, reason: str) -> Request:
    """The request for the spool, with this process's reason, which a later process may not know."""
    return Request(request.name, request.body, keyword=request.keyword, arg=reason, slot=request.slot)


def _is_of_another_starter(run: LiveRun, task: Task) -> bool:
    starter = task.caller.starter
    return run.starter is not None and starter is not None and starter != run.starter


async def _verdict(
    task: Task, key: RunKey, run: LiveRun | None, ad: StarterAd, exit_report: Report
) -> Verdict | None:
    if task.failure is not None:
        # as in HTCondor's shadow: a job has not ended before its files have arrived
        return Verdict("hold", task.failure.reason, task.failure.code, task.failure.subcode)
    has_policy = run.has_policy if run is not None else ad.get("FetchWorkHasPolicy") is True
    if not has_policy or not ("ExitCode" in exit_report or "ExitSignal" in exit_report):
        return None
    job_ad = await task.context.session.database.run(
        runs.run_policy(run_id=key.run_id, token=key.token), timeout_s=task.left(DATABASE_S)
    )
    if job_ad is None:
        return None
    try:
        (judgement,) = await task.context.session.matchmaker.judge([Job(job_ad, exit_report, at_exit=True)])
    except MatchmakerUnavailable as error:
        # the job ran, and a failure of its policy must not lose its end
        judgement = Judgement(None, str(error))
    return judgement.verdict or judgement.hold()
