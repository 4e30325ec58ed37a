"""PREPARE_JOB: the fence. The starter waits for it, and starts the job only if the run still owns it."""

from __future__ import annotations

import asyncio
import logging

from fetchwork.classad.ads import print_old
from fetchwork.classad.values import ClassAd
from fetchwork.codes import HoldCode, HookStatus
from fetchwork.db.calls import runs
from fetchwork.db.calls.call import Call
from fetchwork.errors import DatabaseUnavailable, one_line
from fetchwork.handlers.context import Answer, StartOutcome, Subject, Task
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.slotad import SlotUnknown
from fetchwork.handlers.host.starterlog import MOST_CHARACTERS, Fault, fault_of
from fetchwork.handlers.requests import runcredentials, small
from fetchwork.handlers.requests.provision import NotProvided, provided, wants_devices, without_slot
from fetchwork.handlers.runad import RunKey, read_starter_ad, run_key, slot_name
from fetchwork.hook.wire import Reply

log = logging.getLogger(__name__)

#: seconds for a call: a job that would have to wait longer is started another time
DATABASE_S = 8.0
#: seconds for HTCondor's ad of the slot, since other starts may ask at the same time
SLOT_S = 8.0


async def prepare_job(task: Task) -> Answer:
    """Record that the job starts, or that it can't; only a clear yes of the database lets it start."""
    ad = read_starter_ad(task.request.body)
    key = run_key(ad)
    run = await task.own_run(key)
    job = run.job if run is not None else None
    subject = Subject(task.request.slot, key.run_id, job)
    if run is not None:
        task.runs.preparing(run, task.caller.starter, slot_name(task.request.slot, run.slot) or run.slot)
    if task.request.check:
        return await _could_not_start(task, key, run, subject, task.request.check)
    files = await small.inputs(task, key) if small.are_asked_for(task) else None
    if files is None and small.are_asked_for(task):
        return subject.answer("files", Reply())
    slot = await _slot(task, key, run)
    try:
        brought = await runcredentials.brought(task, key) if runcredentials.are_needed(task) else None
        if brought is not None:
            await runcredentials.note(task, key, brought)
        refusal, body = await _pass_fence(task, key, run, slot, brought)
    except runcredentials.Lacking as error:
        return await _not_started(task, key, run, subject, error.fault)
    except NotProvided as error:
        return await _could_not_start(task, key, run, subject, str(error))
    if refusal is not None:
        return _refused(subject, "refused", refusal)
    if run is not None:
        task.runs.started(run, task.caller.starter, slot or run.slot)
    if brought is not None:
        body += brought.section()
    subject = Subject(slot or task.request.slot, key.run_id, job)
    if files is None:
        return subject.answer("started", Reply(body))
    await files.note(task, key)
    return subject.answer("started", files.with_answer(body), bytes=files.size)


async def _pass_fence(
    task: Task, key: RunKey, run: LiveRun | None, slot: str | None, brought: runcredentials.Brought | None
) -> tuple[str | None, bytes]:
    """Ask the database and the startd at the same time; return the database's refusal, or None and the body.

    Raises NotProvided, DatabaseUnavailable and, for a job that asks for devices, SlotUnknown.
    """
    variables = {} if brought is None else {"_CONDOR_CREDS": brought.directory}
    starter = task.caller.starter
    gift = asyncio.create_task(provided(task, slot or "", run, variables))
    # the request may have ended: a failure counts as retrieved
    gift.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        otherwise = without_slot(task, variables)
        if wants_devices(task.request.body):
            # a job without the devices that it asks for does not start, for it would take another's
            await _in_time(task, gift)
        refusal = await task.context.session.reports.start(
            run_id=key.run_id,
            token=key.token,
            starter=starter.key if starter is not None else None,
            slot=slot,
            timeout_s=task.left(DATABASE_S),
        )
        return refusal, b"" if refusal is not None else await _as_far_as_known(task, gift, otherwise)
    except (DatabaseUnavailable, SlotUnknown) as error:
        if run is not None:
            # the hook will refuse: then the job's failure to start is not its own fault
            run.become("unconfirmed", str(error))
        raise
    finally:
        gift.cancel()


async def _could_not_start(
    task: Task, key: RunKey, run: LiveRun | None, subject: Subject, problem: str
) -> Answer:
    return await _not_started(task, key, run, subject, fault_of(one_line(problem, MOST_CHARACTERS)))


async def _not_started(
    task: Task, key: RunKey, run: LiveRun | None, subject: Subject, fault: Fault
) -> Answer:
    session = task.context.session
    on = await _slot(task, key, run) or session.host
    call = could_not_start(key.run_id, key.token, fault, on)
    if await session.database.run(call, timeout_s=task.left(DATABASE_S)):
        task.runs.ended(session, key.run_id)
    return _refused(subject, "could_not_start", fault.text)


async def _as_far_as_known(task: Task, gift: asyncio.Task[bytes], otherwise: bytes) -> bytes:
    """Return the body with the slot's part; ``otherwise`` if the slot is unknown, which stops no job."""
    try:
        return await _in_time(task, gift)
    except SlotUnknown as error:
        task.context.slot_ads.complain(error, slot=task.request.slot)
    except NotProvided:
        raise
    except Exception as error:
        # a defect of fetchwork: a job that asks for devices has failed over it before its start
        log.exception("the slot's part of a job's start failed")
        task.context.slot_ads.complain(f"{type(error).__name__}: {error}", slot=task.request.slot)
    return otherwise


async def _in_time(task: Task, gift: asyncio.Task[bytes]) -> bytes:
    """Return the body with the slot's part, within the hook's time; raises SlotUnknown, NotProvided."""
    try:
        async with asyncio.timeout(task.left(SLOT_S, reserve_s=1.0)):
            return await gift
    except TimeoutError:
        raise SlotUnknown("HTCondor's commands did not say in time what the slot has") from None


def could_not_start(run_id: int, token: str, fault: Fault, slot: str) -> Call[bool]:
    """Return the call that records a failed start: the job is Held if HTCondor would hold it, else retried.

    The call returns False if the run is over.
    """
    if fault.code is None:
        return runs.refuse_start(
            run_id=run_id, token=token, reason=fault.text, code=HoldCode.FAILED_TO_CREATE_PROCESS
        )
    return runs.start_failed(
        run_id=run_id, token=token, reason=fault.reason(slot), code=fault.code, subcode=fault.subcode
    )


async def _slot(task: Task, key: RunKey, run: LiveRun | None) -> str | None:
    """Return the name of the starter's slot."""
    return slot_name(task.request.slot, run.slot if run else await _claimed_slot(task, key.run_id))


async def _claimed_slot(task: Task, run_id: int) -> str:
    """Return the slot of a run that this process does not know, because it started after the claim."""
    rows = await task.context.session.host_runs(task.left(DATABASE_S))
    return next((row.slot for row in rows if row.run_id == run_id), "")


def _refused(subject: Subject, outcome: StartOutcome, reason: str) -> Answer:
    ad = ClassAd()
    ad["HookStatusCode"] = HookStatus.NOT_NOW
    ad["HookStatusMessage"] = f"fetchwork: {one_line(reason, 400)}"
    reply = Reply(print_old(ad).encode(), exit=1, stderr=one_line(reason, 400))
    return subject.answer(outcome, reply, reason=reason)
