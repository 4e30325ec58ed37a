"""The runs of a host without an agent ("direct mode"), as one fetch finds them in the database.

Nobody delivers what lies in the spool and nobody watches jobs there but the fetches, each before it claims.
"""

from __future__ import annotations

import logging
from typing import Any

from fetchwork.agent import orphans
from fetchwork.agent.replay import Replay
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.handlers.context import Runs
from fetchwork.handlers.keywords import KeywordContext
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)


class UnwatchedRuns(Runs):
    """What a fetch has to know of its host's runs."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self._replay = replay
        self._orphans: list[dict[str, Any]] | None = None

    async def look(self, context: KeywordContext, timeout_s: float) -> None:
        """Deliver what lies in the spool, and tell the database which runs are alive, orphans among them."""
        try:
            await self._replay.deliver(self)
        except DatabaseUnavailable:
            raise
        except FetchworkError as error:
            event(log, logging.ERROR, "spool", problem=error)
        session = context.session
        greeting = await session.hello(timeout_s)
        rows = await session.database.call("host_runs", timeout_s=timeout_s, host_id=greeting.host_id)
        self._orphans = [
            row
            for row in rows
            if orphans.is_orphan(orphans.recorded_process(row), Process.of_key(row["starter"]))
        ]
        # updates may not come: a job's account can't reach the database by itself
        starters = [(row, Process.of_key(row["starter"])) for row in rows]
        alive = [row for row, starter in starters if starter and starter.alive] + self._orphans
        if alive:
            ids = [row["run_id"] for row in alive]
            await session.database.call("beat", timeout_s=timeout_s, host_id=greeting.host_id, alive=ids)

    async def slot_asks(self, context: KeywordContext, slot: str, timeout_s: float) -> bool:
        """A free, undivided slot asks for work: what it ran is over, unless it lives on as an orphan."""
        if self._orphans is None:
            await self.look(context, timeout_s)
        assert self._orphans is not None
        if any(row["slot"] == slot for row in self._orphans):
            return False
        return await super().slot_asks(context, slot, timeout_s)
