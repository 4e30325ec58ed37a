"""A job's Rank chooses among the slots that wait for work at the same moment."""

import asyncio

import pytest

from tests.agent.conftest import Hooks, attributes_of, slot_ad
from tests.support.waiting import PATIENCE_S


def slot(name: str, kflops: int) -> bytes:
    return slot_ad(Name=name, KFlops=kflops)


async def waiting(hooks: Hooks, bodies: list[bytes]) -> list[asyncio.Task[bytes]]:
    """Fetches of these slots that found no job and wait."""
    fetches = [asyncio.create_task(hooks.fetch(body)) for body in bodies]
    await hooks.waiting.until(len(bodies))
    assert not any(fetch.done() for fetch in fetches)
    return fetches


async def test_best_ranked_of_the_waiting_slots_gets_the_job(
    waits: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a busy machine may take longer than usual to let the best slot match
    monkeypatch.setattr("fetchwork.agent.fetching.fetches.YIELD_S", 3.0)
    slow, fast, middle = await waiting(
        waits, [slot("slot1@vm", 10), slot("slot2@vm", 30), slot("slot3@vm", 20)]
    )
    job = waits.submit(ad='{"Rank": "/Expr(TARGET.KFlops)/"}')
    waits.waiting.wake(waits.context.session)
    ad = attributes_of(await asyncio.wait_for(fast, PATIENCE_S))
    assert f"{ad['ClusterId']}.{ad['ProcId']}" == job
    await asyncio.sleep(0.6)
    assert not slow.done() and not middle.done()
    waits.waiting.close()
    assert [await slow, await middle] == [b"", b""]


async def test_what_the_preferred_slot_leaves_is_for_the_others(waits: Hooks) -> None:
    fetches = await waiting(waits, [slot("slot1@vm", 10), slot("slot2@vm", 30), slot("slot3@vm", 20)])
    for _ in range(3):
        waits.submit(ad='{"Rank": "/Expr(TARGET.KFlops)/"}')
    waits.waiting.wake(waits.context.session)
    bodies = await asyncio.wait_for(asyncio.gather(*fetches), PATIENCE_S)
    assert len({attributes_of(body)["ClusterId"] for body in bodies}) == 3


async def test_slot_that_the_job_may_not_use_is_not_preferred(waits: Hooks) -> None:
    slow, fast = await waiting(waits, [slot("slot1@vm", 10), slot("slot2@vm", 30)])
    waits.submit(ad='{"Rank": "/Expr(TARGET.KFlops)/", "Requirements": "/Expr(TARGET.KFlops < 20)/"}')
    waits.waiting.wake(waits.context.session)
    assert await asyncio.wait_for(slow, PATIENCE_S)
    waits.waiting.close()
    assert await fast == b""
