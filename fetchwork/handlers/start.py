"""PREPARE_JOB: the fence. The starter waits for it, and starts the job only if the run still owns it."""

from __future__ import annotations

from typing import Any

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.classad.values import ClassAd
from fetchwork.codes import HoldCode, HookStatus
from fetchwork.errors import DatabaseUnavailable, one_line
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.runad import run_key, slot_name
from fetchwork.hook.wire import Reply

# the hold code for what jobcheck found, which begins with the attribute at fault
_HOLD_CODES = {
    "Iwd": HoldCode.IWD_ERROR,
    "In": HoldCode.UNABLE_TO_OPEN_INPUT,
    "Out": HoldCode.UNABLE_TO_OPEN_OUTPUT,
    "Err": HoldCode.UNABLE_TO_OPEN_OUTPUT,
}


async def prepare_job(task: Task) -> Answer:
    """Tell the database that the job starts, or that it can't; only a clear yes lets it start."""
    ad = parse_old(task.request.body)
    key = run_key(ad)
    session = task.context.session
    run = task.run(key.run_id)
    fields: dict[str, Any] = {"slot": task.request.slot, "run": key.run_id}
    if run is not None:
        fields["job"] = run.job
    if task.request.check:
        problem = one_line(task.request.check, 500)
        ended = await session.database.scalar(
            "refuse_start",
            timeout_s=task.left(),
            run_id=key.run_id,
            token=key.token,
            reason=problem,
            code=hold_code(problem),
        )
        if ended:
            task.runs.ended(session, key.run_id)
        return _refused(problem, {**fields, "outcome": "could_not_start"})
    slot = slot_name(task.request.slot, run.slot if run else await _claimed_slot(task, key.run_id))
    try:
        refusal = await session.database.scalar(
            "start",
            timeout_s=task.left(),
            run_id=key.run_id,
            token=key.token,
            starter=task.caller.starter,
            slot=slot,
        )
    except DatabaseUnavailable as error:
        if run is not None:
            # the hook will refuse; that the job did not start is not its own fault then
            run.unanswered = str(error)
        raise
    if refusal is not None:
        return _refused(refusal, {**fields, "outcome": "refused", "reason": refusal})
    if run is not None:
        run.unanswered = None
        task.runs.started(run, task.caller.starter, slot or run.slot)
    return Answer(Reply(), {**fields, "slot": slot or task.request.slot, "outcome": "started"})


def hold_code(problem: str) -> int:
    """HTCondor's hold code for what the checks before the start found."""
    return _HOLD_CODES.get(problem.partition(" ")[0], HoldCode.FAILED_TO_CREATE_PROCESS)


async def _claimed_slot(task: Task, run_id: int) -> str:
    """The slot that an unknown run was claimed for: direct mode, or an agent that came after the claim."""
    greeting = await task.context.session.hello(task.left())
    rows = await task.context.session.database.call(
        "host_runs", timeout_s=task.left(), host_id=greeting.host_id
    )
    return next((row["slot"] for row in rows if row["run_id"] == run_id), "")


def _refused(reason: str, fields: dict[str, Any]) -> Answer:
    ad = ClassAd()
    ad["HookStatusCode"] = HookStatus.NOT_NOW
    ad["HookStatusMessage"] = f"fetchwork: {one_line(reason, 400)}"
    return Answer(
        Reply(print_old(ad).encode(), exit=1, stderr=one_line(reason, 400)),
        {**fields, "reason": reason},
    )
