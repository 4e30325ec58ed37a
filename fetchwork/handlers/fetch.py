"""FETCH_WORK: a slot asks for work, and gets the ad of a run that was claimed for it, or nothing.

Only a slot that can start a job now is offered one: Unclaimed, Owner, or Claimed/Idle by a fetched claim.
HTCondor accepts a better-ranked job on a busy slot and then drops it (startd-protocol, fact 3).

A fetch may be held. On an idle slot it waits for work to appear. On a busy slot whose job is ours it waits
for the starter's end, upon which the startd takes the answer as that of an idle slot: so a chain of short
jobs has no gaps. However long it was held, what is offered is chosen after the wait, and taken back
if the answer cannot be delivered.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.classad.values import ClassAd
from fetchwork.codes import HoldCode
from fetchwork.errors import ClassAdError
from fetchwork.handlers import accounts, runad
from fetchwork.handlers.context import Answer, LiveRun, Task
from fetchwork.hook.wire import Reply
from fetchwork.matching.choose import Choice, choose
from fetchwork.matching.fit import SlotView, outranked
from fetchwork.matching.shares import slot_weights
from fetchwork.matching.slotstate import slot_resources

#: seconds for a call: a startd asks again soon enough
DATABASE_S = 5.0
#: kinds that one claim is asked to look for
AUTOCLUSTERS_A_CLAIM = 64
#: jobs that one fetch may hold or pass over before the slot has to ask again
TRIES = 20
#: how long a job is left to slots that it prefers
YIELD_S = 0.25
#: what an offer lives for: until the starter's first hook, which is slow to come where names resolve slowly
OFFER_S = 60.0


async def fetch_work(task: Task) -> Answer:
    """Find the slot a job, wait for one if that is allowed, and print its ad."""
    slot = parse_old(task.request.body)
    offer = SlotView(slot)
    name = slot.get("Name")
    if not isinstance(name, str) or not name:
        raise ClassAdError("the slot ad has no Name")
    fields: dict[str, Any] = {"slot": name}
    reason = why_not(slot)
    if reason == "busy":
        if not await _until_free(task, name):
            return Answer(Reply(), {**fields, "outcome": "busy"})
    elif reason is not None:
        return Answer(Reply(), {**fields, "outcome": reason})

    # from before the first look, so that what comes during it is not missed; but a claimed slot that gets
    # nothing is given up by the startd, and a dynamic one deleted: that must not wait
    held = task.hold(name) if slot.get("State") in ("Unclaimed", "Owner") else None
    hold_end = min(task.end - 2.0, time.monotonic() + task.context.max_fetch_wait_s)
    if held is not None:
        held.offer = offer
    try:
        while True:
            answer, yielded = await _try(task, offer, name, fields, held.others() if held else ())
            if answer is None and yielded:
                # the slots that were preferred look at the same moment; what they leave is for this one
                await asyncio.sleep(YIELD_S)
                answer, _ = await _try(task, offer, name, fields, ())
            if answer is not None:
                return answer
            left = hold_end - time.monotonic()
            if held is None or left <= 0 or not await held.wait(left):
                return Answer(Reply(), {**fields, "outcome": "nothing"})
    finally:
        if held is not None:
            held.release()


def why_not(slot: ClassAd) -> str | None:
    """Why a slot can't be given a job now; None if it can, "busy" if it can once its job has ended."""
    state, activity = slot.get("State"), slot.get("Activity")
    if "RemoteScheddName" in slot or "ClientMachine" in slot:
        return "claimed_by_schedd"
    if state in ("Unclaimed", "Owner") or (state == "Claimed" and activity == "Idle"):
        return None
    return "busy" if state == "Claimed" and activity == "Busy" else "not_idle"


async def _until_free(task: Task, name: str) -> bool:
    """Wait for the end of a busy slot's starter, where holding is allowed."""
    held = task.hold(name)
    if held is None:
        return False
    try:
        left_s = min(task.context.max_fetch_wait_s, task.left(reserve_s=2.0))
        if not await task.runs.until_free(task.context, name, held, left_s):
            return False
    finally:
        held.release()
    return True


async def _try(
    task: Task, offer: SlotView, name: str, fields: dict[str, Any], others: Sequence[SlotView]
) -> tuple[Answer | None, bool]:
    """Claim a job for the slot and build its ad; None if there is nothing for it.

    Jobs whose Rank prefers one of the ``others`` are left to those; tells whether there were such jobs.
    """
    context, session, slot = task.context, task.context.session, offer.ad
    greeting = await session.hello(task.left(DATABASE_S))
    # a partitionable slot goes on asking while the starters of its dynamic slots come up
    exclusive = slot.get("SlotType") != "Partitionable" and await task.runs.slot_asks(
        context, name, task.left(DATABASE_S)
    )
    resources = slot_resources(slot)
    candidates = await session.database.call(
        "candidates",
        timeout_s=task.left(DATABASE_S),
        host_id=greeting.host_id,
        slot=name,
        queues=list(context.queues),
        cpus=resources["cpus"],
        memory_mib=resources["memory_mib"],
        disk_kib=resources["disk_kib"],
        gpus=resources["gpus"],
    )
    if not candidates:
        return None, False
    await session.read_autoclusters((row["autocluster_id"] for row in candidates), task.left(DATABASE_S))
    if len({row["submitter"] for row in candidates}) > 1:
        await session.read_shares(task.left(DATABASE_S))
    choices = choose(
        candidates,
        offer,
        autoclusters=session.autoclusters,
        positions=session.positions,
        shares=session.shares,
        queues=context.queues,
    )
    yielded: list[Choice] = []
    if others:
        choices = _without_outranked(choices, offer, others, yielded)
    first = list(itertools.islice(choices, AUTOCLUSTERS_A_CLAIM))
    without_account: list[Choice] = []
    tries = 0
    while first and tries < TRIES and task.left() > 0.5:
        tries += 1
        if context.check_accounts:
            known = await accounts.known({choice.autocluster.owner for choice in first})
            without_account += [choice for choice in first if accounts.is_missing(choice.autocluster.owner)]
            first = [choice for choice in first if choice.autocluster.owner in known]
        claimed = await _claim(task, greeting.host_id, name, slot, first, exclusive) if first else None
        if claimed is None:
            first = list(itertools.islice(choices, AUTOCLUSTERS_A_CLAIM))
            continue
        answer = await _offer(task, slot, name, claimed, fields)
        if answer is not None:
            return answer, False
    if without_account and task.left() > 0.5:
        await _refuse_owner_without_account(task, greeting.host_id, name, slot, without_account, exclusive)
    return None, bool(yielded)


def _without_outranked(
    choices: Iterator[Choice], offer: SlotView, others: Sequence[SlotView], yielded: list[Choice]
) -> Iterator[Choice]:
    """The choices but those whose jobs would rather run on another slot, which go to ``yielded``."""
    for choice in choices:
        if choice.autocluster.request is not None and outranked(choice.autocluster.request, offer, others):
            yielded.append(choice)
        else:
            yield choice


async def _refuse_owner_without_account(
    task: Task, host_id: int, name: str, slot: ClassAd, choices: list[Choice], exclusive: bool
) -> None:
    """Say of one job that no other could go before that its account does not exist here.

    HTCondor would accept it and then be silent (startd-protocol, section 5). The try is counted without
    taking the slot's time; where no host knows the account the job is Held in the end, and its reason says
    so.
    """
    claimed = await _claim(task, host_id, name, slot, choices, exclusive)
    if claimed is not None:
        await task.context.session.database.scalar(
            "refuse_start",
            timeout_s=DATABASE_S,
            run_id=claimed["run_id"],
            token=claimed["token"],
            reason=f"there is no account {claimed['owner']} on {task.context.session.host}",
            code=HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT,
        )


async def _claim(
    task: Task, host_id: int, name: str, slot: ClassAd, choices: list[Choice], exclusive: bool
) -> dict[str, Any] | None:
    context, session = task.context, task.context.session
    ids = [choice.autocluster.autocluster_id for choice in choices]
    hints = [session.positions.hint(choice.autocluster.autocluster_id, choice.prio) for choice in choices]
    rows = await session.database.call(
        "claim",
        timeout_s=task.left(DATABASE_S),
        # a second one would take another job
        again=False,
        host_id=host_id,
        slot=name,
        autoclusters=ids,
        prios=[choice.prio for choice in choices],
        hints=hints,
        limited=[choice.limited for choice in choices],
        weights=slot_weights(slot, [choice.autocluster.ad for choice in choices]),
        offer_s=OFFER_S,
        lease_s=context.lease_s,
        exclusive=exclusive,
    )
    taken = rows[0]["autocluster_id"] if rows else None
    for choice in choices:
        if choice.autocluster.autocluster_id == taken:
            session.positions.took(taken, choice.prio, rows[0]["position"])
            session.shares.claimed(choice.autocluster.submitter)
            break
        session.positions.found_nothing(choice.autocluster.autocluster_id, choice.prio)
    return rows[0] if rows else None


async def _offer(
    task: Task, slot: ClassAd, name: str, claimed: dict[str, Any], fields: dict[str, Any]
) -> Answer | None:
    """The answer that offers a claimed run; None if it had to be taken back."""
    context, session = task.context, task.context.session
    assert session.greeting is not None
    run = LiveRun(
        run_id=claimed["run_id"],
        token=str(claimed["token"]),
        context=context,
        slot=name,
        job=f"{claimed['cluster_id']}.{claimed['proc_id']}",
        owner=claimed["owner"],
        owner_uid=accounts.uid_of(claimed["owner"]),
        has_policy=claimed["has_policy"],
    )
    try:
        ad = runad.build(
            claimed,
            slot,
            kept=session.greeting.kept,
            host=session.host,
            keyword=context.keyword,
            uid_domain=context.uid_domain,
        )
        printed = print_old(ad).encode()
    except ClassAdError as error:
        await _withdraw(task, run, "its ad can't be read", f"the job's ad can't be read: {error}")
        return None
    if len(printed) > context.ad_bytes:
        size = f"the job's ad has {len(printed)} bytes when printed; {session.host} reads {context.ad_bytes}"
        await _withdraw(task, run, size, f"{size} (PIPE_BUFFER_MAX)")
        return None
    task.runs.offered(run)

    async def undo() -> None:
        await _withdraw(task, run, "the hook ended before it got the answer")
        session.shares.claimed(_submitter(task, claimed), -1.0)

    return Answer(Reply(printed), {**fields, "job": run.job, "run": run.run_id, "outcome": "offered"}, undo)


def _submitter(task: Task, claimed: dict[str, Any]) -> str:
    autocluster = task.context.session.autoclusters.get(claimed["autocluster_id"])
    return autocluster.submitter if autocluster else ""


async def _withdraw(task: Task, run: LiveRun, reason: str, hold_reason: str | None = None) -> None:
    session = run.context.session
    task.runs.ended(session, run.run_id)
    await session.database.scalar(
        "withdraw",
        timeout_s=DATABASE_S,
        run_id=run.run_id,
        token=run.token,
        reason=reason,
        hold_reason=hold_reason,
    )
