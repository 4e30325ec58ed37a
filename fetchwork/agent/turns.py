"""Accounts take turns: the requests of one account are worked on one after the other.

A job's account may have many hooks at once, and each may wait for the database, behind a lock that this very
account holds. Working on one of them at a time, the agent has connections left for everybody else. What waits
for files waits without a turn: they have connections of their own, and are moved for minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fetchwork.handlers.context import Caller

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
