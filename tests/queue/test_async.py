"""The asynchronous queue equals the synchronous one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import fetchwork
from fetchwork.errors import DatabaseUnavailable
from fetchwork.queue import AsyncQueue
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S


@pytest.fixture
async def aqueue(conninfo: str) -> AsyncIterator[AsyncQueue]:
    async with AsyncQueue(conninfo) as queue:
        yield queue


async def test_a_job_s_whole_life(aqueue: AsyncQueue, slots: DirectQueue) -> None:
    result = await aqueue.submit("executable = /bin/sleep\nqueue 3\n", owner="alice")
    assert len(await aqueue.query(f"ClusterId == {result.cluster()}")) == 3
    assert (await aqueue.act(fetchwork.JobAction.Hold, "1.1"))["TotalSuccess"] == 1
    assert await aqueue.edit("1.1", "JobPrio", "4") == 1
    assert [ad["JobPrio"] async for ad in aqueue.xquery("JobStatus == 5")] == [4]
    slots.finish(slots.started())
    assert [ad["ExitCode"] for ad in await aqueue.history()] == [0]
    assert [ad["Outcome"] for ad in await aqueue.jobEpochHistory()] == ["completed"]
    types = [event.type_number async for event in aqueue.events(job="1.0", stop_after=0)]
    assert types == [0, 1, 5]
    await aqueue.reschedule()


async def test_waiting_for_events_lets_others_go_on(aqueue: AsyncQueue, slots: DirectQueue) -> None:
    start = await aqueue.cursor()
    found: list[str] = []

    async def follow() -> None:
        async for event in aqueue.events(after=start, stop_after=None):
            found.append(event.job_id)
            if len(found) == 2:
                return

    reader = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    slots.submit()
    slots.submit()
    async with asyncio.timeout(PATIENCE_S):
        await reader
    assert found == ["1.0", "2.0"]


async def test_calls_may_overlap(aqueue: AsyncQueue, slots: DirectQueue) -> None:
    slots.submit_many([{}] * 3)
    answers = await asyncio.gather(*(aqueue.query(f"ProcId == {n}") for n in range(3)))
    assert [answer[0]["ProcId"] for answer in answers] == [0, 1, 2]


async def test_no_database_is_an_error_of_ours() -> None:
    async with AsyncQueue("host=/nonexistent", timeout_s=0.2) as queue:
        with pytest.raises(DatabaseUnavailable):
            await queue.query()
