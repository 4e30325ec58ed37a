"""Limits on one account's use of the access point, which keep it from other accounts' share."""

from __future__ import annotations

import asyncio
from collections import Counter

from fetchwork.errors import FetchworkError

#: connections, of all accounts and of one; requests of one account that run, and that wait for events
MAX_CONNECTIONS = 4096
MAX_CONNECTIONS_EACH = 512
MAX_RUNNING_EACH = 4
MAX_WAITING_EACH = 64
#: of an account's requests with more bytes only one is read at a time
LARGE = 256 * 1024


class Budget:
    """The limits of one account."""

    def __init__(self) -> None:
        self.running = asyncio.Semaphore(MAX_RUNNING_EACH)
        self.large = asyncio.Lock()
        self.waiting = 0


class Budgets:
    """The limits of all connected accounts."""

    def __init__(self) -> None:
        self._budgets: dict[int, Budget] = {}
        self.counts: Counter[int] = Counter()

    def enter(self, uid: int) -> Budget:
        """Count a new connection; raises FetchworkError if there are too many."""
        if self.counts.total() >= MAX_CONNECTIONS or self.counts[uid] >= MAX_CONNECTIONS_EACH:
            raise FetchworkError(
                f"too many connections to the access point; allowed: {MAX_CONNECTIONS_EACH} an account"
            )
        self.counts[uid] += 1
        return self._budgets.setdefault(uid, Budget())

    def leave(self, uid: int) -> None:
        """Count the end of a connection."""
        self.counts[uid] -= 1
        if not self.counts[uid]:
            del self.counts[uid]
            self._budgets.pop(uid, None)
