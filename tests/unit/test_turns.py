"""Accounts take turns at the agent: a wait for a file never delays another job's hook."""

import asyncio
import contextlib

import pytest

from fetchwork.agent.turns import DELIVERED_AT_ONCE, MOST_PAUSE_S, Budgets, Deliveries, Turns
from fetchwork.errors import BucketUnavailable
from fetchwork.handlers.context import Caller
from fetchwork.hook.wire import Request
from tests.support.waiting import PATIENCE_S, until_async

PERSON = Caller(1000, False)


@pytest.mark.parametrize("name", ["read_input", "save_checkpoint"])
async def test_nobody_waits_for_a_request_that_waits_for_files(name: str) -> None:
    turns = Turns()
    async with asyncio.timeout(PATIENCE_S), turns.of(PERSON, name), turns.of(PERSON, "job_exit"):
        pass
    async with asyncio.timeout(PATIENCE_S), turns.of(PERSON, "job_exit"), turns.of(PERSON, name):
        pass


async def test_other_requests_of_an_account_come_one_after_the_other() -> None:
    turns = Turns()
    order = []

    async def ask(name: str) -> None:
        async with turns.of(PERSON, name):
            order.append(name)

    async with turns.of(PERSON, "prepare_job"):
        waiting = asyncio.create_task(ask("job_exit"))
        # of another account, and of a trusted one
        async with turns.of(Caller(1001, False), "job_exit"), turns.of(Caller(1000, True), "job_exit"):
            order.append("others")
        await asyncio.sleep(0)
        order.append("prepare_job")
    await waiting
    assert order == ["others", "prepare_job", "job_exit"]


async def test_deliveries_that_wait_for_a_bucket_are_in_no_other_account_s_way() -> None:
    deliveries = Deliveries()
    hanging: list[int] = []
    gone_on = asyncio.Event()
    ended: list[int] = []

    async def deliver(uid: int) -> None:
        async with deliveries.of(uid) as turn:
            async with turn.aside():
                hanging.append(uid)
                await gone_on.wait()
            ended.append(uid)

    # two of each account, and in all as many as there are turns
    tasks = [asyncio.ensure_future(deliver(uid)) for uid in (1, 1, 1, 2, 2, 2)]
    await until_async(lambda: len(hanging) == DELIVERED_AT_ONCE == 4)
    assert sorted(hanging) == [1, 1, 2, 2]
    async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
        for uid in range(3, 3 + DELIVERED_AT_ONCE):
            await stack.enter_async_context(deliveries.of(uid))
    gone_on.set()
    await asyncio.gather(*tasks)
    assert sorted(ended) == [1, 1, 1, 2, 2, 2]


async def test_a_delivery_whose_bucket_fails_leaves_its_turn_to_the_next() -> None:
    deliveries = Deliveries()
    for _ in range(2 * DELIVERED_AT_ONCE):
        with pytest.raises(BucketUnavailable):
            async with asyncio.timeout(PATIENCE_S), deliveries.of(1) as turn, turn.aside():
                raise BucketUnavailable("away")
    # and it has not grown
    taken = [deliveries.of(uid) for uid in range(DELIVERED_AT_ONCE + 1)]
    async with contextlib.AsyncExitStack() as stack:
        for one in taken[:-1]:
            await stack.enter_async_context(one)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), taken[-1]:
                pass


def test_an_account_may_take_a_share_of_the_time_and_a_little_at_once() -> None:
    budgets = Budgets()
    small, large = Request("update_job_info", b"x" * 4000), Request("job_exit", b"x" * 1_000_000)
    at_once = 0
    while budgets.pause_s(1, small, 0.0) == 0.0:
        at_once += 1
    # a host cannot start as many jobs of one account in a moment
    assert at_once > 500
    # each further wait is longer, and a request that would wait for too long is not counted
    pauses = [budgets.pause_s(1, large, 0.0) for _ in range(100)]
    assert pauses == sorted(pauses)
    assert pauses[-2] == pauses[-1] > MOST_PAUSE_S
    assert budgets.pause_s(2, small, 0.0) == 0.0
    assert budgets.pause_s(1, small, 60.0) == 0.0
    # files are passed on, not parsed
    left = Request("job_left", b"x" * 500_000, files=499_000)
    assert [budgets.pause_s(3, left, 0.0) for _ in range(100)] == [0.0] * 100


def test_an_account_with_many_of_the_runs_may_take_more_of_the_time() -> None:
    """The ends of short jobs in chains of one Owner on all slots: 1000 in a second, for 5 s."""
    ends = Request("chain_next", b"x" * 600)

    def last_pause_s(owners: list[int | None]) -> float:
        budgets = Budgets(lambda: owners)
        return [budgets.pause_s(1, ends, n / 1000) for n in range(5000)][-1]

    assert last_pause_s([1]) == last_pause_s([1, 2]) == 0.0
    assert last_pause_s([1, 2, 2, 2, None]) > 0.0
    assert last_pause_s([]) > 0.0
