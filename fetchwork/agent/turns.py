"""Turns of accounts: the agent works on the requests of one account one after the other.

A job's account may have many hooks at once, and each may wait for the database, behind a lock that this very
account holds. With one request of an account at a time, the agent has connections left for other accounts.
Requests that wait for files take no turn: files have connections of their own, and moving them takes minutes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fetchwork.handlers.context import Caller
from fetchwork.hook.wire import Request

#: most directories of outputs delivered at a time, and most beside them that wait for a bucket
DELIVERED_AT_ONCE = 4
#: the same of one account
DELIVERED_AT_ONCE_EACH = 2
#: the share of the event loop's time that the requests of each account may take, and that of the accounts of
#: running jobs together: each has as much of it as it has of the host's runs
SHARE = 0.2
SHARE_OF_RUNS = 0.8
#: seconds after which the runs are counted again
COUNTED_S = 1.0
#: seconds of a share saved up at most
BURST_S = 0.5
#: seconds charged for a request, and for each byte of its ad
REQUEST_S = 3e-4
BYTE_S = 1e-7
#: seconds after which a request is refused if it would have to wait longer
MOST_PAUSE_S = 8.0
_MOST_KNOWN = 10_000

#: requests that wait for files and take no turn, so that no other job of the account waits for them; and the
#: ends of chains' jobs, which are gathered: all of them hold one connection
WITHOUT = frozenset(("read_input", "save_checkpoint", "chain_next"))


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
    """Each account's budget of the event loop's time; a request beyond it waits.

    ``owners`` returns the uids of the host's runs.
    """

    def __init__(self, owners: Callable[[], Iterable[int | None]] = tuple) -> None:
        self._owners = owners
        self._shares: dict[int | None, float] = {}
        self._counted_at = float("-inf")
        #: uid -> (seconds left, monotonic time of that), the most recent accounts last
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def pause_s(self, uid: int, request: Request, now: float) -> float:
        """Charge a request and return the seconds that it waits; nothing is charged for too long a wait."""
        left, then = self._left.pop(uid, (BURST_S, now))
        share = self._share(uid, now)
        left = min(BURST_S, left + share * (now - then))
        parsed = len(request.body) - (request.files if request.name == "job_left" else 0)
        cost_s = REQUEST_S + BYTE_S * max(0, parsed)
        pause_s = max(0.0, cost_s - left) / share
        self._left[uid] = (left if pause_s > MOST_PAUSE_S else left - cost_s, now)
        while len(self._left) > _MOST_KNOWN:
            self._left.popitem(last=False)
        return pause_s

    def _share(self, uid: int, now: float) -> float:
        """The share of an account: chains of one Owner on all slots of a host may need most of the time."""
        if now >= self._counted_at + COUNTED_S:
            counts = Counter(self._owners())
            self._shares = {each: SHARE_OF_RUNS * n / counts.total() for each, n in counts.items()}
            self._counted_at = now
        return max(SHARE, self._shares.get(uid, 0.0))


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
