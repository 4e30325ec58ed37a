"""Accounts take turns: the requests of one account are worked on one after the other.

A job's account may have many hooks at once, and each may wait for the database, behind a lock that this very
account holds. Working on one of them at a time, the agent has connections left for everybody else. What waits
for files waits without a turn: they have connections of their own, and are moved for minutes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fetchwork.handlers.context import Caller
from fetchwork.hook.wire import Request

#: directories of what jobs left that are delivered at a time, and of these that wait for a bucket
DELIVERED_AT_ONCE = 4
#: of one account
DELIVERED_AT_ONCE_EACH = 2
#: the share of the loop's time that the requests of one account may take, and the seconds of it at once
SHARE = 0.2
BURST_S = 0.5
#: what a request takes of it, and each byte of its ad
REQUEST_S = 3e-4
BYTE_S = 1e-7
#: a request that would wait for longer is refused, after that time
MOST_PAUSE_S = 8.0
_MOST_KNOWN = 10_000

#: requests that wait for files: no other job of their account may wait for them
WITHOUT = frozenset(("read_input", "save_checkpoint"))


@dataclass(slots=True)
class _Turn:
    """The turn of one account, and how many of its requests want it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Turns:
    """The turns of the accounts that have requests now."""

    def __init__(self) -> None:
        self._turns: dict[int, _Turn] = {}

    @asynccontextmanager
    async def of(self, caller: Caller, request: str) -> AsyncIterator[None]:
        """Wait for the caller's turn for a request of this name; one that is trusted waits for nobody."""
        if caller.trusted or request in WITHOUT:
            yield
            return
        turn = self._turns.setdefault(caller.uid, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[caller.uid]


class Budgets:
    """The time of the agent's loop that each account's requests may take; beyond it they wait."""

    def __init__(self) -> None:
        #: what is left, in seconds, and the monotonic time of that; the accounts that asked last
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def pause_s(self, uid: int, request: Request, now: float) -> float:
        """The seconds that a request of the account waits; one that would wait too long costs nothing."""
        left, then = self._left.pop(uid, (BURST_S, now))
        left = min(BURST_S, left + SHARE * (now - then))
        parsed = len(request.body) - (request.files if request.name == "job_left" else 0)
        cost_s = REQUEST_S + BYTE_S * max(0, parsed)
        pause_s = max(0.0, cost_s - left) / SHARE
        self._left[uid] = (left if pause_s > MOST_PAUSE_S else left - cost_s, now)
        while len(self._left) > _MOST_KNOWN:
            self._left.popitem(last=False)
        return pause_s


class Delivery:
    """The turn of a directory that is delivered."""

    def __init__(self, turn: asyncio.Semaphore, buckets: asyncio.Semaphore) -> None:
        self._turn = turn
        self._buckets = buckets
        self._has_it = False

    async def begin(self) -> None:
        """Wait for it."""
        await self._turn.acquire()
        self._has_it = True

    def end(self) -> None:
        """Let the next one have it."""
        if self._has_it:
            self._has_it = False
            self._turn.release()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Let others have it while a bucket is waited for, which may not answer for long."""
        self.end()
        async with self._buckets:
            yield
        await self.begin()


class Deliveries:
    """Whose turn it is to be delivered: some at a time, fewer of one account."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(DELIVERED_AT_ONCE)
        self._buckets = asyncio.Semaphore(DELIVERED_AT_ONCE)
        self._accounts: dict[int, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def of(self, uid: int) -> AsyncIterator[Delivery]:
        """Wait for the turn of a directory of this account."""
        async with self._accounts.setdefault(uid, asyncio.Semaphore(DELIVERED_AT_ONCE_EACH)):
            delivery = Delivery(self._turn, self._buckets)
            await delivery.begin()
            try:
                yield delivery
            finally:
                delivery.end()
