"""REPLY_FETCH and EVICT_CLAIM: the startd's reply to an offer, and its signs in the slot's next fetch.

HTCondor runs REPLY_FETCH for each offer, and condor_procd inspects all processes for each hook. If the agent
updates running jobs itself, undivided slots are configured without it (``HostConfig.is_told_replies``). A
start counts as an accept there. A slot that accepted, but whose starter failed before any hook, fetches again
as a claimed slot, or has changed its state since the offer. A slot that refused has no claim then, and had
none since, except a claim that it gave up with the refusal (Resource::tryFetchWork of 23.9 and 25.14).
"""

from __future__ import annotations

from fetchwork.classad.ads import split_ads
from fetchwork.classad.values import ClassAd, evaluate, number
from fetchwork.db.calls import runs as run_calls
from fetchwork.errors import ClassAdError, one_line
from fetchwork.handlers.context import Answer, Subject, Task
from fetchwork.handlers.host.runs import Runs
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.runad import RunKey, run_key
from fetchwork.matching.slotstate import is_idle

#: why an idle slot refuses a job
DOES_NOT_ALLOW = "rejected by the startd: its START or its resources do not allow the job"


async def reply_fetch(task: Task) -> Answer:
    """Handle ``accept``: the startd is willing, no more; ``reject``: the run ends and the job waits again."""
    job, slot = split_ads(task.request.body)
    key = run_key(job)
    session = task.context.session
    run = task.runs.get(session, key.run_id)
    subject = Subject(_name(slot), key.run_id)
    if task.request.arg == "accept":
        if run is not None and run.token == key.token:
            task.runs.taken(run)
            return subject.answer("accepted")
        live = await session.database.run(
            run_calls.accept(run_id=key.run_id, token=key.token), timeout_s=task.left()
        )
        if run is not None and live:
            task.runs.accepted(run)
        return subject.answer("accepted" if live else "over")
    if task.request.arg != "reject":
        raise ClassAdError(f"argument is '{one_line(task.request.arg, 20)}'; allowed: accept, reject")
    reason, rest = refusal(job, slot)
    ended = await reject(session, task.runs, key, reason, rest=rest, timeout_s=task.left())
    return subject.answer("rejected" if ended else "over", reason=reason)


async def reject(
    session: HostSession, runs: Runs, key: RunKey, reason: str, *, rest: bool, timeout_s: float
) -> bool:
    """End a run that the startd refuses; with ``rest`` its slot gets no such jobs for a while.

    Return False if the run has started, or was over before.
    """
    ended = await session.database.run(
        run_calls.reject(run_id=key.run_id, token=key.token, reason=reason, rest=rest), timeout_s=timeout_s
    )
    if ended:
        runs.ended(session, key.run_id)
        # the demand has the slot's backoff, and must be read again
        session.demand.outdate()
    return ended


async def evict_claim(task: Task) -> Answer:
    """Log the request, nothing else: HTCondor was never seen to call it for a fetched claim."""
    job, slot = split_ads(task.request.body)
    return Subject(_name(slot), run_key(job).run_id).answer("noted")


def refusal(job: ClassAd, slot: ClassAd) -> tuple[str, bool]:
    """Return why the startd rejected a job, as far as the slot ad shows, and whether it would do so again.

    The slot ad of REPLY_FETCH is newer than FETCH_WORK's: if the slot is not idle any more, or has too little
    left, another claim changed it in between.
    """
    if not is_idle(slot) or "RemoteScheddName" in slot:
        return f"rejected by the startd: the slot is {slot.get('State')}/{slot.get('Activity')}", False
    if slot.get("SlotType") == "Partitionable":
        for resource in ("Cpus", "Memory", "Disk", "GPUs"):
            asked, left = job.get(f"Request{resource}"), evaluate(slot, resource)
            wanted, there = number(asked, finite=False), number(left, finite=False)
            if wanted is not None and there is not None and wanted > there:
                return f"rejected by the startd: only {left} of {resource} is left", False
    return DOES_NOT_ALLOW, True


def was_taken(offered_to: ClassAd, asks: ClassAd) -> bool:
    """Whether a slot has accepted its offer, by its ads at the offer and at its next fetch."""
    if asks.get("State") == "Claimed":
        return True
    had_claim = offered_to.get("State") == "Claimed"
    return not had_claim and offered_to.get("EnteredCurrentState") != asks.get("EnteredCurrentState")


def _name(slot: ClassAd) -> str:
    name = slot.get("Name")
    return name if isinstance(name, str) else ""
