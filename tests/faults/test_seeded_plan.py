"""A seeded fault run is planned by its seed alone, independent of the machine."""

import asyncio
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from tests.faults.seeded import SeededRun

FAULTS = 60


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.seeded.asyncio.sleep", AsyncMock())
    monkeypatch.setattr("tests.faults.seeded._PATIENCE_S", 0.001)
    monkeypatch.setattr(SeededRun, "_take_connections", lambda self: [])


def planned(seed: int, *, sprung: Iterator[bool]) -> tuple[list[str], list[Any]]:
    """The plan of a run on hosts that do not exist, and the jobs that it submits."""
    pool = MagicMock(hosts=[])

    async def add_host(**_: object) -> None:
        host = MagicMock(proxy=AsyncMock(traps=[]), agent=AsyncMock(), host=AsyncMock())
        host.name = f"sim{len(pool.hosts) + 1}"
        host.agent.signal = MagicMock()
        host.proxy.trap = lambda *_, **__: SimpleNamespace(sprung=_Event(next(sprung)))
        host.lose_power = host.power_up = AsyncMock()
        pool.hosts.append(host)

    pool.add_host = add_host
    run = SeededRun(MagicMock(), pool, seed, 40, FAULTS)

    async def play() -> None:
        await run.set_up()
        for _ in range(FAULTS):
            await run.next_fault()

    asyncio.run(play())
    return [line.removesuffix(", which was not called") for line in run.plan], pool.submit.call_args_list


class _Event:
    """Whether a trap was reached."""

    def __init__(self, is_set: bool) -> None:
        self.is_set = lambda: is_set
        self._is_set = is_set

    async def wait(self) -> None:
        if not self._is_set:
            raise TimeoutError


def test_a_seed_plans_the_same_run_again() -> None:
    def some() -> Iterator[bool]:
        while True:
            # from the generator that all other code draws from
            yield random.random() < 0.5

    first, again = planned(7, sprung=some()), planned(7, sprung=some())
    assert len(first[0]) > FAULTS
    assert first == again
    assert planned(8, sprung=some()) != first
