"""Puts committed events into the stream for all readers; the leading agent and access points run it.

Theory of operation
-------------------
``fetchwork.sequence_events`` gives all committed events that have no place yet the next batch. Its lock lasts
to the end of the transaction, so only callers with short transactions may call it, and each call here is a
transaction of its own. The caller keeps the value that its last call returned, a snapshot and its server: so
a call reads only transactions that have ended since, and costs next to nothing if none has. If another server
answers, the call reads all.

The pace follows the work. While events come, a call follows a few milliseconds after the last one; while none
come, the pause grows. A reader that may call the function does so itself (``queue.reader``) and does not
depend on this pace. Several callers do no harm: one at a time does the work, the others return at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fetchwork.db.calls import maintenance
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import FetchworkError

#: the pause between two calls while events come, and the longest pause while none do
SHORTEST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 0.25
#: the pause after a call that failed, and while another process does the work
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
        """Sequence events for ever."""
        pause_s = OTHER_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = await self._round() if self._wanted() else OTHER_PAUSE_S

    async def _round(self) -> float:
        """Make one call; return the seconds until the next."""
        try:
            done = await self._database.run(maintenance.sequence_events(since=self._since), timeout_s=CALL_S)
        except FetchworkError:
            # the database is down, which other code reports
            return OTHER_PAUSE_S
        self._since = done.until
        self._pause_s = SHORTEST_PAUSE_S if done.sequenced else min(LONGEST_PAUSE_S, 1.3 * self._pause_s)
        return self._pause_s
