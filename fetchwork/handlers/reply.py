"""REPLY_FETCH and EVICT_CLAIM: what the startd thinks of an offer."""

from __future__ import annotations

from typing import Any

from fetchwork.classad.ads import split_ads
from fetchwork.classad.values import ClassAd, evaluate, number
from fetchwork.errors import ClassAdError, one_line
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.runad import run_key
from fetchwork.hook.wire import Reply


async def reply_fetch(task: Task) -> Answer:
    """``accept``: the startd is willing, no more. ``reject``: the run ends and the job waits again."""
    job, slot = split_ads(task.request.body)
    key = run_key(job)
    session = task.context.session
    run = task.runs.get(session, key.run_id)
    fields: dict[str, Any] = {"slot": slot.get("Name", ""), "run": key.run_id}
    if task.request.arg == "accept":
        live = await session.database.scalar(
            "accept", timeout_s=task.left(), run_id=key.run_id, token=key.token
        )
        if run is not None and live:
            task.runs.accepted(run)
        return Answer(Reply(), {**fields, "outcome": "accepted" if live else "over"})
    if task.request.arg != "reject":
        raise ClassAdError(f"argument is '{one_line(task.request.arg, 20)}'; allowed: accept, reject")
    reason, rest = refusal(job, slot)
    ended = await session.database.scalar(
        "reject", timeout_s=task.left(), run_id=key.run_id, token=key.token, reason=reason, rest=rest
    )
    if ended:
        task.runs.ended(session, key.run_id)
    return Answer(Reply(), {**fields, "outcome": "rejected" if ended else "over", "reason": reason})


async def evict_claim(task: Task) -> Answer:
    """Recorded in the log, nothing else: HTCondor was never seen to call it for a fetched claim."""
    job, slot = split_ads(task.request.body)
    return Answer(Reply(), {"slot": slot.get("Name", ""), "run": run_key(job).run_id, "outcome": "noted"})


def refusal(job: ClassAd, slot: ClassAd) -> tuple[str, bool]:
    """Why the startd rejected a job, as far as the slot ad tells, and whether it would do so again.

    The slot ad of REPLY_FETCH is newer than FETCH_WORK's: a slot that is not idle any more, or of which too
    little is left, has only been overtaken by something else.
    """
    state, activity = slot.get("State"), slot.get("Activity")
    idle = state in ("Unclaimed", "Owner") or (state == "Claimed" and activity == "Idle")
    if not idle or "RemoteScheddName" in slot:
        return f"rejected by the startd: the slot is {state}/{activity}", False
    if slot.get("SlotType") == "Partitionable":
        for resource in ("Cpus", "Memory", "Disk", "GPUs"):
            asked, left = job.get(f"Request{resource}"), evaluate(slot, resource)
            wanted, there = number(asked, finite=False), number(left, finite=False)
            if wanted is not None and there is not None and wanted > there:
                return f"rejected by the startd: only {left} of {resource} is left", False
    return "rejected by the startd: its START or its resources do not allow the job", True
