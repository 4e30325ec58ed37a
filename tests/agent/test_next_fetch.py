"""Offers without a REPLY_FETCH: the job's start, or the slot's next fetch, shows their outcome."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.classad.values import ClassAd
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.requests.reply import DOES_NOT_ALLOW, was_taken
from tests.agent.conftest import Hooks, JobOf, Submit, nothing, slot_ad

#: the slot's ad before the offer, and after a claim that followed
BEFORE = slot_ad(EnteredCurrentState=1000)
LATER = slot_ad(EnteredCurrentState=1010)
CLAIMED = slot_ad(State="Claimed", Activity="Idle", EnteredCurrentState=1010)


@contextlib.asynccontextmanager
async def _untold(conninfo: str) -> AsyncIterator[Hooks]:
    runs = WatchedRuns(nothing, lambda session, slot: None)
    hooks = Hooks(conninfo, runs=runs, is_told_replies=False)
    yield hooks
    await runs.close()
    await hooks.context.session.close()


@pytest.fixture
async def untold(conninfo: str) -> AsyncIterator[Hooks]:
    """The hooks of an agent that hears of no replies."""
    async with _untold(conninfo) as hooks:
        yield hooks


def ended(database: Database) -> list[tuple[str, str | None]]:
    rows = database.query("SELECT outcome::text, reason FROM fetchwork.run_history ORDER BY run_id")
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


async def test_a_start_without_a_reply_is_an_accept(untold: Hooks, submit: Submit, job_of: JobOf) -> None:
    job = submit()
    fetched = await untold.fetch(BEFORE)
    assert (await untold.start(fetched)).outcome == "started"
    assert job_of(job)["jobstatus"] == 2


async def test_a_slot_that_asks_as_before_has_refused_and_rests(
    untold: Hooks, submit: Submit, job_of: JobOf, database: Database
) -> None:
    job = submit()
    refused = await untold.fetch(BEFORE)
    assert refused
    assert not await untold.fetch(BEFORE), "the slot rests from such jobs"
    assert ended(database) == [("rejected", DOES_NOT_ALLOW)]
    row = job_of(job)
    assert (row["jobstatus"], row["numjobstarts"]) == (1, 0)
    assert (await untold.start(refused)).outcome == "refused", "the offer is over"
    # the job is offered to another slot at once
    assert await untold.fetch(slot_ad(Name="slot2@vm", EnteredCurrentState=1000))


async def test_a_refusal_is_counted_though_the_database_was_away_at_the_next_fetch(
    untold: Hooks, submit: Submit, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit()
    await untold.fetch(BEFORE)
    run = AsyncDatabase.run

    async def away(self: AsyncDatabase, call: Any, **more: Any) -> Any:
        raise DatabaseUnavailable("it is away")

    monkeypatch.setattr(AsyncDatabase, "run", away)
    assert (await untold.ask("fetch_work", BEFORE)).reply.code == "unavailable"
    monkeypatch.setattr(AsyncDatabase, "run", run)
    assert ended(database) == []
    assert not await untold.fetch(BEFORE), "the slot rests from such jobs"
    assert ended(database) == [("rejected", DOES_NOT_ALLOW)]


async def test_a_slot_that_is_drained_at_the_moment_of_its_offer_is_no_refusal(
    hooks: Hooks, submit: Submit, job_of: JobOf, database: Database
) -> None:
    job = submit()
    fetched = await hooks.fetch(BEFORE)
    drained = slot_ad(State="Drained", Activity="Retiring", EnteredCurrentState=1005)
    assert (await hooks.reply("reject", fetched, drained)).outcome == "rejected"
    assert ended(database) == [("rejected", "rejected by the startd: the slot is Drained/Retiring")]
    assert job_of(job)["jobstatus"] == 1
    # and the slot does not rest from such jobs
    assert await hooks.fetch(LATER)


async def test_a_slot_that_was_drained_unheard_is_a_try_of_the_job(
    untold: Hooks, submit: Submit, job_of: JobOf, database: Database
) -> None:
    """The slot's next fetch comes after the drain, and does not show that it refused."""
    job = submit()
    await untold.fetch(BEFORE)
    await untold.fetch(slot_ad(EnteredCurrentState=1300))
    assert [outcome for outcome, _ in ended(database)] == ["could_not_start"]
    assert job_of(job)["jobstatus"] == 1


@pytest.mark.parametrize("asks", [LATER, CLAIMED], ids=["unclaimed again", "still claimed"])
async def test_a_job_that_was_taken_and_started_by_nobody_is_a_try(
    untold: Hooks, submit: Submit, job_of: JobOf, database: Database, asks: bytes
) -> None:
    job = submit()
    await untold.fetch(BEFORE)
    await untold.fetch(asks)
    (outcome, reason), *_ = ended(database)
    assert outcome == "could_not_start"
    assert "no starter reported" in (reason or "")
    assert job_of(job)["jobstatus"] == 1


async def test_an_accept_that_is_told_all_the_same_counts(
    untold: Hooks, submit: Submit, database: Database
) -> None:
    """As from a startd that has not read its new configuration yet."""
    submit()
    fetched = await untold.fetch(BEFORE)
    assert (await untold.reply("accept", fetched)).outcome == "accepted"
    await untold.fetch(BEFORE)
    assert [outcome for outcome, _ in ended(database)] == ["could_not_start"]


async def test_a_busy_slot_waits_for_the_starter_of_an_untold_offer(untold: Hooks, submit: Submit) -> None:
    """Its job may begin at any moment, so the slot's state afterwards is not known."""
    submit()
    await untold.fetch(BEFORE)
    assert isinstance(untold.runs, WatchedRuns)
    (run,) = untold.runs
    assert run.waits_for_starter
    assert await untold.runs.starter_before_next(untold.context, run.slot) is None
    assert run.state == "reserved"


async def test_what_the_agent_before_has_offered_is_taken_back_without_a_try(
    untold: Hooks, conninfo: str, submit: Submit, database: Database
) -> None:
    submit()
    await untold.fetch(BEFORE)
    async with _untold(conninfo) as after:
        assert isinstance(after.runs, WatchedRuns)
        await after.runs.take_over(after.context, 5.0)
        (run,) = list[LiveRun](after.runs)
        assert (run.state, run.fetched_by) == ("reserved", b"")
        await after.fetch(CLAIMED)
    (outcome, _), *_ = ended(database)
    assert outcome == "withdrawn"
