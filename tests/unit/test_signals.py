"""Waiting for several signals at once."""

import asyncio

import pytest

from fetchwork.agent.signals import Signal, first
from tests.support.waiting import PATIENCE_S


async def test_each_of_several_signals_ends_the_wait_and_nothing_is_left_of_it() -> None:
    for number in range(3):
        signals = [Signal() for _ in range(3)]
        waits = [asyncio.ensure_future(first(PATIENCE_S, *signals)) for _ in range(2)]
        await asyncio.sleep(0)
        assert [len(signal.awaited) for signal in signals] == [2, 2, 2]
        signals[number].set()
        signals[number].set()
        await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S / 2)
        assert not any(signal.awaited for signal in signals)


async def test_wait_ends_at_its_time_and_when_it_is_cancelled() -> None:
    signal = Signal()
    await first(0.01, signal)
    waiting = asyncio.ensure_future(first(PATIENCE_S, signal))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not signal.awaited
