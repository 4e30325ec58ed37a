"""Fetches of one moment share a match round, with as few reads of the database as possible."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Awaitable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchwork.agent.fetching import matchrounds
from fetchwork.agent.fetching.matchrounds import MAX_SEEKERS, MatchRounds
from fetchwork.agent.fetching.notifications import LOOK_S, WorkNotifications
from fetchwork.agent.lease import Lease
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs.liveoutput import LiveOutputs, open_as_user
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.context import Answer
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.requests import matchround, offer
from fetchwork.handlers.requests.fetch import Look
from fetchwork.handlers.requests.matchround import Seeker
from tests.agent.conftest import Hooks, Jobs, UnwatchedRuns, attributes_of, slot_ad
from tests.support.by_name import call
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of the hooks' calls of each SQL function."""
    counted: Counter[str] = Counter()
    run = AsyncDatabase.run

    async def counting(self: AsyncDatabase, one: Any, **more: Any) -> Any:
        counted[one.function] += 1
        return await run(self, one, **more)

    monkeypatch.setattr(AsyncDatabase, "run", counting)
    return counted


def slots(count: int, first: int = 1, **more: Any) -> list[bytes]:
    return [slot_ad(Name=f"slot{number}@vm", **more) for number in range(first, first + count)]


async def together(hooks: Hooks, bodies: list[bytes]) -> list[bytes]:
    """The answers to fetches that arrive at one moment."""
    return await asyncio.wait_for(asyncio.gather(*map(hooks.fetch, bodies)), PATIENCE_S)


def submit_many(database: Database, count: int, **attributes: Any) -> None:
    ads = [{"Cmd": "/bin/true", "Owner": "nobody", **attributes}] * count
    call(database, "submit_many", ads=ads)


async def ready(hooks: Hooks) -> None:
    """Say hello, and start the matchmaker."""
    await hooks.context.session.hello(PATIENCE_S)


async def listening(hooks: Hooks, calls: Counter[str]) -> None:
    """Make an agent that has read all and hears of changes."""
    hooks.context.session.demand.live = True
    assert await hooks.fetch(slot_ad(Name="slot99@vm")) == b""
    calls.clear()


def no_reads(calls: Counter[str]) -> bool:
    """Whether the only calls free a slot, which the agent's own runs decide without a call."""
    return not set(calls) - {"slot_is_free"}


async def test_slots_that_ask_together_are_one_reading_and_one_claim(
    hooks: Hooks, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_many(hooks.database, 20)
    await ready(hooks)
    # at one moment, no matter how long it took to free each slot
    assert isinstance(hooks.runs, UnwatchedRuns)
    free_slot, come, all_have_come = hooks.runs.free_slot, [], asyncio.Event()

    async def together_free(context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        freed = await free_slot(context, slot, ad, timeout_s)
        come.append(slot)
        if len(come) == 10:
            all_have_come.set()
        await all_have_come.wait()
        return freed

    monkeypatch.setattr(hooks.runs, "free_slot", together_free)
    bodies = await together(hooks, slots(10))
    ads = [attributes_of(body) for body in bodies]
    assert len({ad["FetchWorkRunId"] for ad in ads}) == 10
    assert len({ad["FetchWorkToken"] for ad in ads}) == 10
    assert len({(ad["ClusterId"], ad["ProcId"]) for ad in ads}) == 10
    # the calls that one round needs
    assert calls["claim_many"] <= 3
    assert calls["read_demand"] <= 3
    rows = hooks.database.query("SELECT slot, run_id FROM fetchwork.run")
    assert {row["slot"]: row["run_id"] for row in rows} == {
        f"slot{n}@vm": ad["FetchWorkRunId"] for n, ad in enumerate(ads, 1)
    }


async def test_slots_that_were_answered_together_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, made = MatchRounds(), []

    async def look(seekers: list[Seeker]) -> None:
        made.append(len(seekers))
        for seeker in seekers:
            seeker.result = Look(None)

    def asks(count: int) -> list[asyncio.Task[Look]]:
        return [asyncio.create_task(rounds.look(cast(Seeker, SimpleNamespace()))) for _ in range(count)]

    monkeypatch.setattr(matchround, "look", look)
    monkeypatch.setattr(matchrounds, "TOGETHER_S", PATIENCE_S)
    await asyncio.gather(*asks(4))
    some = asks(3)
    await asyncio.sleep(0.05)
    assert made == [4]
    await asyncio.gather(*some, *asks(1))
    assert made == [4, 4]
    # each round waits only briefly, and for fewer fetches the next time
    monkeypatch.setattr(matchrounds, "TOGETHER_S", 0.01)
    await asyncio.gather(*asks(3))
    monkeypatch.setattr(matchrounds, "TOGETHER_S", PATIENCE_S)
    await asyncio.gather(*asks(3))
    assert made == [4, 4, 3, 3]


async def test_more_slots_than_one_round_takes_are_all_served(hooks: Hooks) -> None:
    count = MAX_SEEKERS + 10
    submit_many(hooks.database, count)
    assert all(await together(hooks, slots(count)))


async def test_slots_that_ask_together_are_shared_by_two_submitters(hooks: Hooks) -> None:
    for owner in ("alice", "bob"):
        submit_many(hooks.database, 10, Owner=owner)
    bodies = await together(hooks, slots(8))
    owners = Counter(attributes_of(body)["Owner"] for body in bodies)
    assert owners == {"alice": 4, "bob": 4}


async def test_each_slot_of_a_round_gets_what_fits_it(hooks: Hooks) -> None:
    submit_many(hooks.database, 2, Requirements="/Expr(TARGET.Large)/")
    submit_many(hooks.database, 2, RequestCpus=1)
    bodies = await together(hooks, [*slots(2), *slots(2, 3, Large=True)])
    assert all(bodies)
    assert await hooks.fetch(slot_ad(Name="slot9@vm")) == b""


async def test_slot_without_a_readable_ad_fails_alone(hooks: Hooks) -> None:
    submit_many(hooks.database, 4)
    wrong = slot_ad(Name="slot7@vm").replace(b"\n", b"\nWrong = (((\n", 1)
    answers = await asyncio.gather(
        *(hooks.ask("fetch_work", body) for body in (slots(1)[0], wrong, slots(1, 2)[0]))
    )
    assert [answer.reply.code for answer in answers] == ["", "bad_request", ""]
    assert answers[0].reply.body and answers[2].reply.body


async def test_slot_whose_claim_the_database_refuses_fails_alone(hooks: Hooks) -> None:
    submit_many(hooks.database, 6)
    hooks.database.query(
        "INSERT INTO fetchwork.run (cluster_id, proc_id, autocluster_id, host_id, slot, lease, deadline)"
        " SELECT cluster_id, proc_id, autocluster_id, 0, 'nowhere', '1 h', now() + '1 h'"
        " FROM fetchwork.waiting WHERE proc_id = 0"
    )
    answers = await asyncio.gather(*(hooks.ask("fetch_work", body) for body in slots(4)))
    # in any rounds
    assert sorted(answer.reply.code for answer in answers) == ["", "", "", "denied"]
    hooks.database.query("DELETE FROM fetchwork.run WHERE slot = 'nowhere'")


async def test_a_defect_in_one_offer_leaves_the_other_slots_of_its_round_theirs(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_many(hooks.database, 3)
    make = offer.offer

    async def broken(fetch: offer.Fetch, taken: offer.Taken, problem: str | None) -> Answer | None:
        if fetch.slot_name == "slot2@vm":
            raise ZeroDivisionError("a defect")
        return await make(fetch, taken, problem)

    monkeypatch.setattr(offer, "offer", broken)
    answers = await asyncio.gather(*(hooks.ask("fetch_work", body) for body in slots(3)))
    assert [bool(answer.reply.body) for answer in answers] == [True, False, True]
    assert "a defect" in answers[1].reply.message
    # its job waits again at once
    assert [row["slot"] for row in hooks.database.query("SELECT slot FROM fetchwork.run ORDER BY slot")] == [
        "slot1@vm",
        "slot3@vm",
    ]


async def test_job_that_cannot_be_printed_is_held_and_each_slot_gets_another(hooks: Hooks) -> None:
    # an error that the database's check of values does not look for
    bad = [hooks.submit(requirements=f"TARGET.Memory > {n} 0") for n in range(2)]
    submit_many(hooks.database, 3)
    assert all(await together(hooks, slots(3)))
    assert [hooks.job_of(job)["jobstatus"] for job in bad] == [5, 5]


async def test_fetch_that_is_cancelled_gives_its_job_back(
    conninfo: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = Hooks(conninfo)
    jobs.submit()
    claimed = asyncio.Event()
    run = AsyncDatabase.run

    async def slow(self: AsyncDatabase, one: Any, **more: Any) -> Any:
        answer = await run(self, one, **more)
        if one.function == "claim_many":
            claimed.set()
            await asyncio.sleep(0.1)
        return answer

    monkeypatch.setattr(AsyncDatabase, "run", slow)
    fetch = asyncio.ensure_future(hooks.fetch())
    await claimed.wait()
    fetch.cancel()
    async with asyncio.timeout(PATIENCE_S):
        while not jobs.database.query("SELECT 1 AS one FROM fetchwork.waiting"):
            await asyncio.sleep(0.02)
    await hooks.close()


async def test_new_fetch_asks_the_database_nothing_when_nothing_waits(
    hooks: Hooks, calls: Counter[str]
) -> None:
    await listening(hooks, calls)
    assert await together(hooks, slots(8)) == [b""] * 8
    assert no_reads(calls)


async def test_new_fetch_asks_the_database_nothing_when_what_waits_does_not_fit(
    hooks: Hooks, calls: Counter[str]
) -> None:
    hooks.submit(requirements='TARGET.Machine == "another"')
    await listening(hooks, calls)
    assert await together(hooks, slots(8)) == [b""] * 8
    assert no_reads(calls)


def plus(database: Database) -> str:
    """The notified change of the last autocluster."""
    (row,) = database.query(
        "SELECT json_build_array('+', autocluster_id, 0, 1, queue, request_cpus, request_memory_mib,"
        " request_disk_kib, request_gpus)::text AS note"
        " FROM fetchwork.autocluster ORDER BY autocluster_id DESC LIMIT 1"
    )
    return str(row["note"])


async def test_news_of_a_known_autocluster_that_does_not_fit_costs_nothing(
    hooks: Hooks, calls: Counter[str]
) -> None:
    hooks.submit(requirements='TARGET.Machine == "another"')
    await listening(hooks, calls)
    assert await hooks.fetch() == b""
    hooks.submit(requirements='TARGET.Machine == "another"')
    assert hooks.context.session.demand.heard(plus(hooks.database), time.monotonic()) is not None
    assert await together(hooks, slots(8)) == [b""] * 8
    assert no_reads(calls)


async def test_news_of_a_new_autocluster_costs_one_small_reading(hooks: Hooks, calls: Counter[str]) -> None:
    await listening(hooks, calls)
    hooks.submit(requirements='TARGET.Machine == "another"')
    hooks.context.session.demand.heard(plus(hooks.database), time.monotonic())
    assert await together(hooks, slots(8)) == [b""] * 8
    assert {name: count for name, count in calls.items() if name != "slot_is_free"} == {"autocluster_ads": 1}


async def test_news_that_are_heard_bring_the_job(hooks: Hooks, calls: Counter[str]) -> None:
    await listening(hooks, calls)
    hooks.submit()
    assert await hooks.fetch() == b""
    hooks.context.session.demand.heard(plus(hooks.database), time.monotonic())
    assert await hooks.fetch()
    assert calls["read_demand"] == 0


async def test_forged_news_bring_no_job_of_another_queue_and_none_that_is_not_there(
    hooks: Hooks, calls: Counter[str]
) -> None:
    hooks.call("set_queue", name="secret")
    await listening(hooks, calls)
    hooks.submit(ad={"FetchWorkQueue": "secret"})
    demand = hooks.context.session.demand
    demand.heard(plus(hooks.database).replace("secret", "default"), time.monotonic())
    demand.heard('["+", 12345, 0, 1, "default", null, null, null, null]', time.monotonic())
    assert await hooks.fetch() == b""
    assert calls["claim_many"] == 0
    # a job that does not exist is not asked for again
    calls.clear()
    assert await hooks.fetch() == b""
    assert no_reads(calls)


async def test_slot_that_refused_a_job_is_not_offered_it_again_at_once(
    hooks: Hooks, calls: Counter[str]
) -> None:
    hooks.submit()
    await ready(hooks)
    hooks.context.session.demand.live = True
    job = await hooks.fetch()
    await hooks.reply("reject", job)
    assert await hooks.fetch() == b""
    hooks.context.session.demand.heard(plus(hooks.database), time.monotonic())
    assert await hooks.fetch() == b""
    assert await hooks.fetch(slot_ad(Name="slot2@vm"))


async def test_waiting_slots_that_are_woken_for_one_job_make_one_claim(
    waits: Hooks, calls: Counter[str]
) -> None:
    waits.waiting.limit = 100
    fetches = [asyncio.create_task(waits.fetch(body)) for body in slots(20)]
    await waits.waiting.until(20)
    demand = waits.context.session.demand
    demand.live = True
    await asyncio.to_thread(waits.submit)
    demand.heard(plus(waits.database), time.monotonic())
    calls.clear()
    waits.waiting.wake(waits.context.session)
    done, waiting = await asyncio.wait(fetches, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    await waits.waiting.until(39)
    assert (len(done), len(waiting)) == (1, 19)
    assert calls["claim_many"] <= 3
    # a job that was taken is not tried again by the fetches that wanted it
    calls.clear()
    waits.waiting.wake(waits.context.session)
    await waits.waiting.until(58)
    assert no_reads(calls)
    waits.waiting.close()
    assert set(await asyncio.gather(*waiting)) == {b""}


async def test_limit_on_starts_wakes_waiting_slots_when_the_next_may_be(
    waits: Hooks, calls: Counter[str]
) -> None:
    """No polling: a claim is made when it can get a job, by fetches that none but their own timers wake."""
    seconds, count = 1.0, 4
    waits.waiting.limit = 100
    waits.call("set_starts", scope="owner", name="nobody", starts=1, seconds=seconds)
    submit_many(waits.database, count)
    await ready(waits)
    waits.context.session.demand.live = True
    fetches = [asyncio.create_task(waits.fetch(body)) for body in slots(count)]
    assert all(await asyncio.wait_for(asyncio.gather(*fetches), PATIENCE_S))
    rows = waits.database.query(
        "SELECT extract(epoch FROM claimed_at)::float8 AS at FROM fetchwork.run ORDER BY claimed_at"
    )
    times = [row["at"] for row in rows]
    gaps = [later - at for at, later in itertools.pairwise(times)]
    assert len(gaps) == count - 1
    assert min(gaps) >= seconds
    # sooner than any slot would look again without its timer
    assert max(gaps) < LOOK_S
    # one claim of each start; few more where slots did not look together
    assert calls["claim_many"] <= 2 * count + 2


async def test_other_jobs_are_given_while_a_limit_on_starts_closes_the_first(
    waits: Hooks, calls: Counter[str]
) -> None:
    waits.call("set_starts", scope="limit", name="db", starts=1, seconds=600)
    submit_many(waits.database, 2, ConcurrencyLimits="db", JobPrio=5)
    await ready(waits)
    waits.context.session.demand.live = True
    assert await waits.fetch(slots(1)[0])
    fetches = [asyncio.create_task(waits.fetch(body)) for body in slots(2, 2)]
    await waits.waiting.until(2)
    calls.clear()
    # looking again costs no claim
    waits.waiting.wake(waits.context.session)
    await waits.waiting.until(4)
    assert calls["claim_many"] == 0
    submit_many(waits.database, 1)
    demand = waits.context.session.demand
    demand.heard(plus(waits.database), time.monotonic())
    waits.waiting.wake(waits.context.session)
    done, waiting = await asyncio.wait(fetches, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    assert ["ConcurrencyLimits" in attributes_of(fetch.result()) for fetch in done] == [False]
    # an administrator takes the limit away, which a notification says
    waits.call("set_starts", scope="limit", name="db", starts=None)
    demand.heard("", time.monotonic())
    waits.waiting.wake(waits.context.session)
    (last,) = waiting
    assert await asyncio.wait_for(last, PATIENCE_S)


async def test_change_of_limits_that_overtakes_a_claim_closes_nothing(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.call("set_starts", scope="owner", name="nobody", starts=1, seconds=600)
    submit_many(hooks.database, 5)
    await ready(hooks)
    demand = hooks.context.session.demand
    demand.live = True
    run = AsyncDatabase.run
    overtaken = True

    async def overtake(self: AsyncDatabase, one: Any, **more: Any) -> Any:
        answer = await run(self, one, **more)
        if one.function == "claim_many" and overtaken:
            demand.heard("", time.monotonic())
        return answer

    monkeypatch.setattr(AsyncDatabase, "run", overtake)
    assert await hooks.fetch(slots(1)[0])
    assert not demand._closed
    overtaken = False
    assert not await hooks.fetch(slots(1, 2)[0])
    assert len(demand._closed) == 1


async def test_job_that_others_took_before_slots_looked_wakes_none_of_them(
    waits: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = [asyncio.create_task(waits.fetch(body)) for body in slots(5)]
    await waits.waiting.until(5)
    session = waits.context.session
    monkeypatch.setattr(session.demand, "_spread", lambda jobs: 0.3)
    lease = Lease(waits.context, cast(Any, waits.runs), "", lambda session: None)
    outputs = LiveOutputs(session, waits.runs, partial(open_as_user, SignalRights()))
    notifications = WorkNotifications(lease, waits.waiting, outputs)
    listening = asyncio.ensure_future(notifications.listen())
    # the first match round after all notifications reads the queue
    await waits.waiting.until(10)
    try:
        for what in (["+", 77, 0, 1, "default", 1, None, None, None], ["~", 77, 0]):
            waits.database.query("SELECT pg_notify('fetchwork_work', %s)", [json.dumps(what)])
        async with asyncio.timeout(PATIENCE_S):
            for planned in (True, False):
                while (notifications._next is not None) is not planned:
                    await asyncio.sleep(0.01)
        await asyncio.to_thread(waits.submit)
        done, waiting = await asyncio.wait(fetches, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        await waits.waiting.until(14)
        assert (len(done), len(waiting), waits.waiting.waits) == (1, 4, 14)
    finally:
        listening.cancel()
        waits.waiting.close()
    assert set(await asyncio.gather(*waiting)) == {b""}


async def test_database_that_goes_away_fails_all_of_a_round_in_time(no_database: Hooks) -> None:
    async def ask(body: bytes) -> Answer:
        return await no_database.ask("fetch_work", body, seconds=2.0)

    asking: list[Awaitable[Answer]] = [ask(body) for body in slots(5)]
    answers = await asyncio.wait_for(asyncio.gather(*asking), PATIENCE_S)
    assert {answer.reply.code for answer in answers} == {"unavailable"}
