"""FETCH_WORK in the agent: a fetch looks for work, and waits in between for as long as it may.

A fetch goes one way: the server reads it, the list of waiting fetches keeps it until something changes,
matching decides, and the handler's ``FetchAttempt`` claims and prints.

A fetch of an idle slot waits for work to appear. A fetch of a busy slot whose job is ours waits for the end
of its starter, upon which the startd takes the answer as that of an idle slot: so a chain of short jobs has
no gaps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from fetchwork.agent.longpoll import WaitingFetch, WaitingFetches
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.fetch import DATABASE_S, FetchAttempt, Look
from fetchwork.handlers.keywords import KeywordContext

#: how long a job is left to slots that it prefers
YIELD_S = 0.25
#: an answer that was waited for leaves this much of the hook's time
RESERVE_S = 2.0
#: the startd has to notice the starter's end before it believes an answer
REAP_S = 0.02


class StarterEnd(Protocol):
    """A starter whose end is awaited."""

    gone: asyncio.Event


class SlotFreer(Protocol):
    """What one look needs of the runs of the host."""

    async def free_slot(self, context: KeywordContext, slot: str, timeout_s: float) -> bool:
        """A free slot asks for work: what it had before is over. False if something of it lives on."""
        ...


class HostRuns(SlotFreer, Protocol):
    """What the agent knows of a host's slots by its runs."""

    async def starter_before_next(self, context: KeywordContext, slot: str) -> StarterEnd | None:
        """The starter of a busy slot, if the slot is free after it; None if that is unknown."""
        ...


class Fetches:
    """The fetches of one agent. ``on_wait`` hears of each before it begins to wait."""

    def __init__(
        self,
        runs: HostRuns,
        waiting: WaitingFetches,
        on_wait: Callable[[FetchAttempt], None] = lambda attempt: None,
    ) -> None:
        self._runs = runs
        self._waiting = waiting
        self._on_wait = on_wait

    async def answer(self, task: Task, gone: asyncio.Event) -> Answer:
        """The answer to a fetch whose hook sets ``gone`` when it leaves: a job, or nothing in the end."""
        attempt = FetchAttempt(task)
        if attempt.not_now == "busy":
            if not await self._until_free(attempt, gone):
                return attempt.answer("busy")
        elif attempt.not_now is not None:
            return attempt.answer(attempt.not_now)
        # from before the first look, so that what comes during it is not missed
        waiting = self._enter(attempt, gone, task.request.body) if attempt.may_wait else None
        wait_end = min(task.end - RESERVE_S, time.monotonic() + task.context.max_fetch_wait_s)
        try:
            while True:
                offer = await self._look(attempt, waiting)
                if offer is not None:
                    return offer
                left_s = wait_end - time.monotonic()
                if waiting is None or left_s <= 0 or not await waiting.wait(left_s):
                    return attempt.answer("nothing")
        finally:
            if waiting is not None:
                self._waiting.leave(waiting)

    async def _look(self, attempt: FetchAttempt, waiting: WaitingFetch | None) -> Answer | None:
        """Look once for work, and once more for what the slots that jobs prefer have left."""
        look = await look_once(attempt, self._runs, self._waiting.beside(waiting) if waiting else [])
        if look.left_to_others:
            # those slots look at the same moment
            await asyncio.sleep(YIELD_S)
            look = await look_once(attempt, self._runs)
        return look.offer

    async def _until_free(self, attempt: FetchAttempt, gone: asyncio.Event) -> bool:
        """Wait for the end of a busy slot's starter, where the fetch may wait and the slot is free then."""
        task = attempt.task
        waiting = self._enter(attempt, gone)
        if waiting is None:
            return False
        try:
            left_s = min(task.context.max_fetch_wait_s, task.left(reserve_s=RESERVE_S))
            starter = await self._runs.starter_before_next(task.context, attempt.slot_name)
            if starter is None or not await waiting.wait_for(starter.gone, left_s):
                return False
        finally:
            self._waiting.leave(waiting)
        await asyncio.sleep(REAP_S)
        return True

    def _enter(
        self, attempt: FetchAttempt, gone: asyncio.Event, slot: bytes | None = None
    ) -> WaitingFetch | None:
        if attempt.task.context.max_fetch_wait_s <= 0:
            return None
        self._on_wait(attempt)
        return self._waiting.enter(attempt.session, attempt.slot_name, gone, slot)


async def look_once(attempt: FetchAttempt, runs: SlotFreer, others: list[bytes] | None = None) -> Look:
    """Free an undivided slot of what it ran before, and look for work for it."""
    task = attempt.task
    # a partitionable slot goes on asking while the starters of its dynamic slots come up
    exclusive = not attempt.partitionable and await runs.free_slot(
        task.context, attempt.slot_name, task.left(DATABASE_S)
    )
    return await attempt.look(exclusive=exclusive, others=others or ())
