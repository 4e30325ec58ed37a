"""Turns of accounts: the agent works on the requests of one account one after the other.

A job's account may have many hooks at once, and each may wait for the database, behind a lock that this very
account holds. With one request of an account at a time, the agent has connections left for other accounts.
Requests that wait for files take no turn: files have connections of their own, and moving them takes minutes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fetchwork.handlers.context import Caller
from fetchwork.hook.wire import Request

#: most directories of outputs delivered at a time, and most beside them that wait for a bucket
DELIVERED_AT_ONCE = 4
#: the same of one account
DELIVERED_AT_ONCE_EACH = 2
#: the share of the event loop's time that one account's requests may take, and seconds of it saved up at most
SHARE = 0.2
BURST_S = 0.5
#: seconds charged for a request, and for each byte of its ad
REQUEST_S = 3e-4
BYTE_S = 1e-7
#: seconds after which a request is refused if it would have to wait longer
MOST_PAUSE_S = 8.0
_MOST_KNOWN = 10_000

#: requests that wait for files and take no turn, so that no other job of the account waits for them
WITHOUT = frozenset(("read_input", "save_checkpoint"))


@dataclass(slots=True)
class _Turn:
    """The turn of one account, and the number of its requests that want it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Turns:
    """The turns of all accounts with requests in flight."""

    def __init__(self) -> None:
        self._turns: dict[int, _Turn] = {}

    @asynccontextmanager
    async def of(self, caller: Caller, request: str) -> AsyncIterator[None]:
        """Hold the caller's turn for a request of this name; a trusted caller needs no turn."""
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
    """Each account's budget of the event loop's time; a request beyond it waits."""

    def __init__(self) -> None:
        #: uid -> (seconds left, monotonic time of that), the most recent accounts last
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def pause_s(self, uid: int, request: Request, now: float) -> float:
        """Charge a request and return the seconds that it waits; nothing is charged for too long a wait."""
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
    """A directory's turn to be delivered."""

    def __init__(self, turn: asyncio.Semaphore, buckets: asyncio.Semaphore) -> None:
        self._turn = turn
        self._buckets = buckets
        self._has_it = False

    async def begin(self) -> None:
        """Wait for the turn."""
        await self._turn.acquire()
        self._has_it = True

    def end(self) -> None:
        """Pass the turn on."""
        if self._has_it:
            self._has_it = False
            self._turn.release()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Pass the turn on while waiting for a bucket, which may not answer for long."""
        self.end()
        async with self._buckets:
            yield
        await self.begin()


class Deliveries:
    """The turns of directories to be delivered: some at a time, fewer of one account."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(DELIVERED_AT_ONCE)
        self._buckets = asyncio.Semaphore(DELIVERED_AT_ONCE)
        self._accounts: dict[int, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def of(self, uid: int) -> AsyncIterator[Delivery]:
        """Hold the turn of a directory of this account."""
        async with self._accounts.setdefault(uid, asyncio.Semaphore(DELIVERED_AT_ONCE_EACH)):
            delivery = Delivery(self._turn, self._buckets)
            await delivery.begin()
            try:
                yield delivery
            finally:
                delivery.end()
