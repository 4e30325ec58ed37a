"""FETCH_WORK in the agent: a fetch joins match rounds, and waits between them for as long as it may.

The way of a fetch: the server reads it, the list of waiting fetches keeps it until something changes, and a
match round (``matchrounds``) finds, claims and prints a job for it and for the other fetches of that moment.

A fetch of an idle slot waits for new work. A fetch of a busy slot that runs a job of ours waits for the end
of its starter; the startd then takes the answer as that of an idle slot. So a chain of short jobs has no
gaps.
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

#: seconds for which a job is left to slots that it prefers
YIELD_S = 0.25
#: seconds of the hook's time that waiting leaves for the answer
RESERVE_S = 2.0
#: seconds for the startd to notice the starter's end; before that it would not take an answer
REAP_S = 0.02


class StarterEnd(Protocol):
    """A starter whose end is awaited."""

    gone: Signal


class SlotFreer(Protocol):
    """The part of the host's runs that a match round needs."""

    async def free_slot(self, context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        """End the earlier runs of a free slot that asks for work; False if one of them lives on.

        The slot's ``ad`` may say whether the slot has taken the job that it was offered before.
        """
        ...


class HostRuns(SlotFreer, Protocol):
    """The host's runs, as far as fetches need them."""

    def slot_asks(self, context: KeywordContext, slot: str, ad: bytes) -> bool:
        """Let a chain end whose slot is leaving; return whether a chain goes on there."""
        ...

    async def starter_before_next(self, context: KeywordContext, slot: str) -> StarterEnd | None:
        """Return the starter of a busy slot if the slot is free after its end; None if that is unknown."""
        ...


class Fetches:
    """The fetches of one agent. ``on_wait`` is called before a fetch begins to wait."""

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
        """Return the answer to a fetch: a job, or "nothing" in the end. The hook's leaving sets ``gone``."""
        attempt = FetchAttempt(task)
        goes_on = self._runs.slot_asks(task.context, attempt.slot_name, task.request.body)
        if attempt.not_now == "busy":
            # only the next ad says whether the slot is retiring, so the slot must ask again soon
            if goes_on or not await self._until_free(attempt, gone):
                return attempt.answer("busy")
        elif attempt.not_now is not None:
            return attempt.answer(attempt.not_now)
        # entered before the first match round, so that changes during it are not missed
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
        """Join a match round, and another one if jobs were first left to slots that they prefer."""
        exclusive = await frees_slot(attempt, self._runs)
        others = self._waiting.beside(waiting) if waiting else []
        is_over = (lambda: waiting.is_over) if waiting else (lambda: False)
        look = await self._matchmaking.look(Seeker(attempt, exclusive, others, fresh, is_over))
        if look.left_to_others:
            # those slots join a match round, too
            self._waiting.wake(attempt.session)
            await asyncio.sleep(YIELD_S)
            look = await self._matchmaking.look(Seeker(attempt, exclusive, (), fresh, is_over))
        return look

    async def _until_free(self, attempt: FetchAttempt, gone: Signal) -> bool:
        """Wait for the end of the slot's starter; False if the fetch may not wait or the slot stays busy."""
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
    """End the earlier runs of an undivided slot; False if the slot has, or may have, other runs now."""
    # a partitionable slot goes on asking while the starters of its dynamic slots come up
    task = attempt.task
    return not attempt.partitionable and await runs.free_slot(
        task.context, attempt.slot_name, task.request.body, task.left(DATABASE_S)
    )
