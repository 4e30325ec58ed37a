"""From the choices of a fetch to an offer: a run is claimed, and printed as the ad that FETCH_WORK shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fetchwork.codes import HoldCode
from fetchwork.db import calls
from fetchwork.errors import ClassAdError
from fetchwork.handlers import accounts
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.runs import LiveRun
from fetchwork.hook.wire import Reply
from fetchwork.matching.choose import Choice
from fetchwork.matchmaker.printing import Run
from fetchwork.matchmaker.processes import MatchmakerUnavailable

#: seconds for a call: a startd asks again soon enough
DATABASE_S = 5.0
#: how long an offer lives: until the starter's first hook, which is slow to come where names resolve slowly
OFFER_S = 60.0


class Fetch(Protocol):
    """What of a fetch an offer is made for."""

    task: Task
    slot_name: str


@dataclass(frozen=True, slots=True)
class Weighed:
    """A choice that the slot may be given, and what a second of the slot costs the job."""

    choice: Choice
    weight: float = 1.0


async def claim(fetch: Fetch, weighed: Sequence[Weighed], exclusive: bool) -> calls.Claimed | None:
    """Make a run of the first job that can be had of these choices."""
    task, session = fetch.task, fetch.task.context.session
    greeting = await session.hello(task.left(DATABASE_S))
    choices = [one.choice for one in weighed]
    claimed = await session.database.run(
        calls.claim(
            host_id=greeting.host_id,
            slot=fetch.slot_name,
            autoclusters=[choice.autocluster.autocluster_id for choice in choices],
            prios=[choice.prio for choice in choices],
            hints=[
                session.positions.hint(choice.autocluster.autocluster_id, choice.prio) for choice in choices
            ],
            limited=[choice.limited for choice in choices],
            weights=[one.weight for one in weighed],
            offer_s=OFFER_S,
            lease_s=task.context.lease_s,
            exclusive=exclusive,
        ),
        timeout_s=task.left(DATABASE_S),
        # a second one would take another job
        again=False,
    )
    for choice in choices:
        autocluster = choice.autocluster
        if claimed is not None and autocluster.autocluster_id == claimed.autocluster_id:
            session.positions.took(autocluster.autocluster_id, choice.prio, claimed.position)
            session.shares.claimed(autocluster.submitter)
            break
        session.positions.found_nothing(autocluster.autocluster_id, choice.prio)
    return claimed


async def offer(fetch: Fetch, claimed: calls.Claimed, problem: str | None = None) -> Answer | None:
    """The answer that offers a claimed run; None if its ad can't be printed, upon which its job is Held.

    ``problem`` says why matching could not read the ad.
    """
    task, context, session = fetch.task, fetch.task.context, fetch.task.context.session
    run = LiveRun(
        run_id=claimed.run_id,
        token=str(claimed.token),
        context=context,
        slot=fetch.slot_name,
        job=f"{claimed.cluster_id}.{claimed.proc_id}",
        owner=claimed.owner,
        owner_uid=accounts.uid_of(claimed.owner),
        has_policy=claimed.has_policy,
    )
    try:
        if problem is not None:
            raise ClassAdError(problem)
        printed = await session.matchmaker.print_ad(
            Run(
                run_id=run.run_id,
                token=run.token,
                cluster_id=claimed.cluster_id,
                proc_id=claimed.proc_id,
                owner=run.owner,
                has_policy=run.has_policy,
                ad=claimed.ad,
            ),
            task.request.body,
            kept=session.kept,
            host=session.host,
            keyword=context.keyword,
            uid_domain=context.uid_domain,
        )
    except MatchmakerUnavailable as error:
        await _withdraw(task, run, f"its ad could not be printed: {error}")
        raise
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
        autocluster = session.autoclusters.get(claimed.autocluster_id)
        session.shares.claimed(autocluster.submitter if autocluster else "", -1.0)

    return Answer(Reply(printed), "offered", run.slot, run.job, run.run_id, undo=undo)


async def refuse_for_want_of_account(fetch: Fetch, choices: Sequence[Weighed], exclusive: bool) -> None:
    """Refuse one job that had its turn and whose owner has no account on this host.

    HTCondor would accept it and then be silent (startd-protocol, section 5). The try is counted without
    taking the slot's time; where no host knows the account the job is Held in the end, and its reason says
    so.
    """
    claimed = await claim(fetch, choices, exclusive)
    if claimed is None:
        return
    session = fetch.task.context.session
    await session.database.run(
        calls.refuse_start(
            run_id=claimed.run_id,
            token=claimed.token,
            reason=f"there is no account {claimed.owner} on {session.host}",
            code=HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT,
        ),
        timeout_s=DATABASE_S,
    )


async def _withdraw(task: Task, run: LiveRun, reason: str, hold_reason: str | None = None) -> None:
    session = run.context.session
    task.runs.ended(session, run.run_id)
    await session.database.run(
        calls.withdraw(run_id=run.run_id, token=run.token, reason=reason, hold_reason=hold_reason),
        timeout_s=DATABASE_S,
    )
