"""Puts committed events into the stream, for all readers: the leading agent and access points do it.

Theory of operation
-------------------
``fetchwork.sequence_events`` gives all events that are committed and have no place yet the next batch. Its
lock lasts to the end of the transaction, so only those whose transactions are short may call it, and each
call is a transaction of its own. The caller keeps the snapshot that the last call returned: so a call looks
only at transactions that have ended since, and costs next to nothing when none has.

The pace follows the work. While events come, a call follows a few milliseconds after the last one; where none
come the pause grows. A reader that may call the function itself does so (``queue.reader``), and waits for no
pace. Several callers are no harm: one at a time does the work, the others return at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fetchwork.db.calls import maintenance
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import FetchworkError

#: between two calls while events come, and the longest pause where none do
SHORTEST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.25
#: after a call that failed, and while it is not this process's work
OTHER_PAUSE_S = 1.0
CALL_S = 5.0


class Sequencer:
    """Puts the events of one database into the stream while ``wanted`` says so."""

    def __init__(self, database: AsyncDatabase, wanted: Callable[[], bool] = lambda: True) -> None:
        self._database = database
        self._wanted = wanted
        self._since: str | None = None
        self._pause_s = SHORTEST_PAUSE_S

    async def run(self) -> None:
        """Do so for ever."""
        pause_s = OTHER_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = await self._round() if self._wanted() else OTHER_PAUSE_S

    async def _round(self) -> float:
        """One call; the seconds until the next."""
        try:
            done = await self._database.run(maintenance.sequence_events(since=self._since), timeout_s=CALL_S)
        except FetchworkError:
            # the database is away, which others say; it may be another one that comes back
            self._since = None
            return OTHER_PAUSE_S
        self._since = done.until
        self._pause_s = SHORTEST_PAUSE_S if done.sequenced else min(LONGEST_PAUSE_S, 1.3 * self._pause_s)
        return self._pause_s
