"""PREPARE_JOB: the fence. The starter waits for it, and starts the job only if the run still owns it."""

from __future__ import annotations

from fetchwork.classad.ads import print_old
from fetchwork.classad.values import ClassAd
from fetchwork.codes import HoldCode, HookStatus
from fetchwork.db import calls
from fetchwork.errors import DatabaseUnavailable, one_line
from fetchwork.handlers.context import Answer, StartOutcome, Subject, Task
from fetchwork.handlers.runad import read_starter_ad, run_key, slot_name
from fetchwork.hook.wire import Reply

#: seconds for a call: the job of one that has to wait longer is started another time
DATABASE_S = 8.0

# the hold code for what jobcheck found, which begins with the attribute at fault
_HOLD_CODES = {
    "Iwd": HoldCode.IWD_ERROR,
    "In": HoldCode.UNABLE_TO_OPEN_INPUT,
    "Out": HoldCode.UNABLE_TO_OPEN_OUTPUT,
    "Err": HoldCode.UNABLE_TO_OPEN_OUTPUT,
}


async def prepare_job(task: Task) -> Answer:
    """Record that the job starts, or that it can't; only a clear yes of the database lets it start."""
    ad = read_starter_ad(task.request.body)
    key = run_key(ad)
    session = task.context.session
    run = await task.own_run(key)
    job = run.job if run is not None else None
    subject = Subject(task.request.slot, key.run_id, job)
    if task.request.check:
        problem = one_line(task.request.check, 500)
        ended = await session.database.run(
            calls.refuse_start(run_id=key.run_id, token=key.token, reason=problem, code=hold_code(problem)),
            timeout_s=task.left(DATABASE_S),
        )
        if ended:
            task.runs.ended(session, key.run_id)
        return _refused(subject, "could_not_start", problem)
    slot = slot_name(task.request.slot, run.slot if run else await _claimed_slot(task, key.run_id))
    try:
        refusal = await session.reports.start(
            run_id=key.run_id,
            token=key.token,
            starter=task.caller.starter,
            slot=slot,
            timeout_s=task.left(DATABASE_S),
        )
    except DatabaseUnavailable as error:
        if run is not None:
            # the hook will refuse; that the job did not start is not its own fault then
            run.unanswered = str(error)
        raise
    if refusal is not None:
        return _refused(subject, "refused", refusal)
    if run is not None:
        run.unanswered = None
        task.runs.started(run, task.caller.starter, slot or run.slot)
    return Subject(slot or task.request.slot, key.run_id, job).answer("started")


def hold_code(problem: str) -> int:
    """HTCondor's hold code for what the checks before the start found."""
    return _HOLD_CODES.get(problem.partition(" ")[0], HoldCode.FAILED_TO_CREATE_PROCESS)


async def _claimed_slot(task: Task, run_id: int) -> str:
    """The slot that an unknown run was claimed for: direct mode, or an agent that came after the claim."""
    rows = await task.context.session.host_runs(task.left(DATABASE_S))
    return next((row.slot for row in rows if row.run_id == run_id), "")


def _refused(subject: Subject, outcome: StartOutcome, reason: str) -> Answer:
    ad = ClassAd()
    ad["HookStatusCode"] = HookStatus.NOT_NOW
    ad["HookStatusMessage"] = f"fetchwork: {one_line(reason, 400)}"
    reply = Reply(print_old(ad).encode(), exit=1, stderr=one_line(reason, 400))
    return subject.answer(outcome, reply, reason=reason)
