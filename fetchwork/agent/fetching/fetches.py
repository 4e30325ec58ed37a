"""FETCH_WORK in the agent: a fetch looks for work, and waits in between for as long as it may.

A fetch goes one way: the server reads it, the list of waiting fetches keeps it until something changes, and
a round of matching (``matchrounds``) finds, claims and prints a job for it and for the others that look.

A fetch of an idle slot waits for work to appear. A fetch of a busy slot whose job is ours waits for the end
of its starter, upon which the startd takes the answer as that of an idle slot: so a chain of short jobs has
no gaps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from fetchwork.agent.fetching.longpoll import WaitingFetch, WaitingFetches
from fetchwork.agent.fetching.matchrounds import Matchmaking
from fetchwork.agent.signals import Signal
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.requests.fetch import FetchAttempt, Look
from fetchwork.handlers.requests.matchround import DATABASE_S, Seeker

#: how long a job is left to slots that it prefers
YIELD_S = 0.25
#: an answer that was waited for leaves this much of the hook's time
RESERVE_S = 2.0
#: the startd has to notice the starter's end before it believes an answer
REAP_S = 0.02


class StarterEnd(Protocol):
    """A starter whose end is awaited."""

    gone: Signal


class SlotFreer(Protocol):
    """What one look needs of the runs of the host."""

    async def free_slot(self, context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        """A free slot asks for work: what it had before is over. False if something of it lives on.

        ``ad`` is the slot's, which may say whether it has taken what it was offered before.
        """
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
        self._matchmaking = Matchmaking()

    async def answer(self, task: Task, gone: Signal) -> Answer:
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
        fresh = True
        try:
            while True:
                look = await self._look(attempt, waiting, fresh=fresh)
                if look.offer is not None:
                    return look.offer
                fresh = False
                left_s = wait_end - time.monotonic()
                pause_s = left_s if look.again_s is None else min(left_s, look.again_s)
                if waiting is None or left_s <= 0 or not await waiting.wait(pause_s):
                    return attempt.answer("nothing")
        finally:
            if waiting is not None:
                self._waiting.leave(waiting)

    async def _look(self, attempt: FetchAttempt, waiting: WaitingFetch | None, *, fresh: bool) -> Look:
        """Look once for work, and once more for what the slots that jobs prefer have left."""
        exclusive = await frees_slot(attempt, self._runs)
        others = self._waiting.beside(waiting) if waiting else []
        is_over = (lambda: waiting.is_over) if waiting else (lambda: False)
        look = await self._matchmaking.look(Seeker(attempt, exclusive, others, fresh, is_over))
        if look.left_to_others:
            # those slots look, too
            self._waiting.wake(attempt.session)
            await asyncio.sleep(YIELD_S)
            look = await self._matchmaking.look(Seeker(attempt, exclusive, (), fresh, is_over))
        return look

    async def _until_free(self, attempt: FetchAttempt, gone: Signal) -> bool:
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

    def _enter(self, attempt: FetchAttempt, gone: Signal, slot: bytes | None = None) -> WaitingFetch | None:
        if attempt.task.context.max_fetch_wait_s <= 0:
            return None
        self._on_wait(attempt)
        return self._waiting.enter(attempt.session, attempt.slot_name, gone, slot)


async def frees_slot(attempt: FetchAttempt, runs: SlotFreer) -> bool:
    """Free an undivided slot of what it ran before; False if it has, or may have, other runs now."""
    # a partitionable slot goes on asking while the starters of its dynamic slots come up
    task = attempt.task
    return not attempt.partitionable and await runs.free_slot(
        task.context, attempt.slot_name, task.request.body, task.left(DATABASE_S)
    )
