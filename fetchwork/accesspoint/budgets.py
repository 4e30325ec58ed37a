"""What one account may take of the access point, so that it takes nothing of another's."""

from __future__ import annotations

import asyncio
from collections import Counter

from fetchwork.errors import FetchworkError

#: connections in all and of one account; requests of one account that are worked on, and that wait for events
MAX_CONNECTIONS = 4096
MAX_CONNECTIONS_EACH = 512
MAX_RUNNING_EACH = 4
MAX_WAITING_EACH = 64
#: a request of more bytes is read alone among those of its account
LARGE = 256 * 1024


class Budget:
    """One account's."""

    def __init__(self) -> None:
        self.running = asyncio.Semaphore(MAX_RUNNING_EACH)
        self.large = asyncio.Lock()
        self.waiting = 0


class Budgets:
    """Those of all accounts that are connected."""

    def __init__(self) -> None:
        self._budgets: dict[int, Budget] = {}
        self.counts: Counter[int] = Counter()

    def enter(self, uid: int) -> Budget:
        """A connection begins; raises FetchworkError if there are too many."""
        if self.counts.total() >= MAX_CONNECTIONS or self.counts[uid] >= MAX_CONNECTIONS_EACH:
            raise FetchworkError(
                f"too many connections to the access point; allowed: {MAX_CONNECTIONS_EACH} an account"
            )
        self.counts[uid] += 1
        return self._budgets.setdefault(uid, Budget())

    def leave(self, uid: int) -> None:
        """A connection has ended."""
        self.counts[uid] -= 1
        if not self.counts[uid]:
            del self.counts[uid]
            self._budgets.pop(uid, None)
