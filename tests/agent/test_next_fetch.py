"""Offers without a REPLY_FETCH: the job's start, or the slot's next fetch, shows their outcome."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fetchwork.classad.values import ClassAd
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.requests.reply import DOES_NOT_ALLOW, was_taken
from tests.agent.conftest import Hooks, Jobs, WatchingHooks, slot_ad

#: the slot's ad before the offer, and after a claim that followed
BEFORE = slot_ad(EnteredCurrentState=1000)
LATER = slot_ad(EnteredCurrentState=1010)
CLAIMED = slot_ad(State="Claimed", Activity="Idle", EnteredCurrentState=1010)


@pytest.fixture
async def untold(conninfo: str) -> AsyncIterator[WatchingHooks]:
    """The hooks of an agent that hears of no replies."""
    hooks = WatchingHooks(conninfo, is_told_replies=False)
    yield hooks
    await hooks.close()


def ended(jobs: Jobs) -> list[tuple[str, str | None]]:
    rows = jobs.database.query("SELECT outcome::text, reason FROM fetchwork.run_history ORDER BY run_id")
    return [(row["outcome"], row["reason"]) for row in rows]


def ad(state: str, since: int) -> ClassAd:
    return ClassAd({"State": state, "EnteredCurrentState": since})


@pytest.mark.parametrize(
    ("offered_to", "asks", "taken"),
    [
        (ad("Unclaimed", 10), ad("Unclaimed", 10), False),
        (ad("Owner", 10), ad("Owner", 10), False),
        (ad("Unclaimed", 10), ad("Unclaimed", 11), True),
        (ad("Unclaimed", 10), ad("Claimed", 11), True),
        # a startd that refuses gives up its claim; a slot that asks while claimed has not refused
        (ad("Claimed", 10), ad("Claimed", 10), True),
        (ad("Claimed", 10), ad("Claimed", 11), True),
        (ad("Claimed", 10), ad("Unclaimed", 11), False),
    ],
)
def test_a_slot_that_took_an_offer_has_or_had_a_claim(
    offered_to: ClassAd, asks: ClassAd, taken: bool
) -> None:
    assert was_taken(offered_to, asks) is taken


async def test_a_start_without_a_reply_is_an_accept(untold: WatchingHooks) -> None:
    job = untold.submit()
    fetched = await untold.fetch(BEFORE)
    assert (await untold.start(fetched)).outcome == "started"
    assert untold.job_of(job)["jobstatus"] == 2


async def test_a_slot_that_asks_as_before_has_refused_and_rests(untold: WatchingHooks) -> None:
    job = untold.submit()
    refused = await untold.fetch(BEFORE)
    assert refused
    assert not await untold.fetch(BEFORE), "the slot rests from such jobs"
    assert ended(untold) == [("rejected", DOES_NOT_ALLOW)]
    row = untold.job_of(job)
    assert (row["jobstatus"], row["numjobstarts"]) == (1, 0)
    assert (await untold.start(refused)).outcome == "refused", "the offer is over"
    # the job is offered to another slot at once
    assert await untold.fetch(slot_ad(Name="slot2@vm", EnteredCurrentState=1000))


async def test_a_refusal_is_counted_though_the_database_was_away_at_the_next_fetch(
    untold: WatchingHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    untold.submit()
    await untold.fetch(BEFORE)
    run = AsyncDatabase.run

    async def away(self: AsyncDatabase, call: Any, **more: Any) -> Any:
        raise DatabaseUnavailable("it is away")

    monkeypatch.setattr(AsyncDatabase, "run", away)
    assert (await untold.ask("fetch_work", BEFORE)).reply.code == "unavailable"
    monkeypatch.setattr(AsyncDatabase, "run", run)
    assert ended(untold) == []
    assert not await untold.fetch(BEFORE), "the slot rests from such jobs"
    assert ended(untold) == [("rejected", DOES_NOT_ALLOW)]


async def test_a_slot_that_is_drained_at_the_moment_of_its_offer_is_no_refusal(hooks: Hooks) -> None:
    job = hooks.submit()
    fetched = await hooks.fetch(BEFORE)
    drained = slot_ad(State="Drained", Activity="Retiring", EnteredCurrentState=1005)
    assert (await hooks.reply("reject", fetched, drained)).outcome == "rejected"
    assert ended(hooks) == [("rejected", "rejected by the startd: the slot is Drained/Retiring")]
    assert hooks.job_of(job)["jobstatus"] == 1
    # and the slot does not rest from such jobs
    assert await hooks.fetch(LATER)


async def test_a_slot_that_was_drained_unheard_is_a_try_of_the_job(untold: WatchingHooks) -> None:
    """The slot's next fetch comes after the drain, and does not show that it refused."""
    job = untold.submit()
    await untold.fetch(BEFORE)
    await untold.fetch(slot_ad(EnteredCurrentState=1300))
    assert [outcome for outcome, _ in ended(untold)] == ["could_not_start"]
    assert untold.job_of(job)["jobstatus"] == 1


@pytest.mark.parametrize("asks", [LATER, CLAIMED], ids=["unclaimed again", "still claimed"])
async def test_a_job_that_was_taken_and_started_by_nobody_is_a_try(
    untold: WatchingHooks, asks: bytes
) -> None:
    job = untold.submit()
    await untold.fetch(BEFORE)
    await untold.fetch(asks)
    (outcome, reason), *_ = ended(untold)
    assert outcome == "could_not_start"
    assert "no starter reported" in (reason or "")
    assert untold.job_of(job)["jobstatus"] == 1


async def test_an_accept_that_is_told_all_the_same_counts(untold: WatchingHooks) -> None:
    """As from a startd that has not read its new configuration yet."""
    untold.submit()
    fetched = await untold.fetch(BEFORE)
    assert (await untold.reply("accept", fetched)).outcome == "accepted"
    await untold.fetch(BEFORE)
    assert [outcome for outcome, _ in ended(untold)] == ["could_not_start"]


async def test_a_busy_slot_waits_for_the_starter_of_an_untold_offer(untold: WatchingHooks) -> None:
    """Its job may begin at any moment, so the slot's state afterwards is not known."""
    untold.submit()
    await untold.fetch(BEFORE)
    (run,) = untold.runs
    assert run.waits_for_starter
    assert await untold.runs.starter_before_next(untold.context, run.slot) is None
    assert run.state == "reserved"


async def test_what_the_agent_before_has_offered_is_taken_back_without_a_try(
    untold: WatchingHooks, conninfo: str
) -> None:
    untold.submit()
    await untold.fetch(BEFORE)
    after = WatchingHooks(conninfo, is_told_replies=False)
    await after.runs.take_over(after.context, 5.0)
    (run,) = list[LiveRun](after.runs)
    assert (run.state, run.fetched_by) == ("reserved", b"")
    await after.fetch(CLAIMED)
    await after.close()
    (outcome, _), *_ = ended(untold)
    assert outcome == "withdrawn"
