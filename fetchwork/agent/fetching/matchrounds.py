"""One matchmaker an agent: fetches that look at one moment look together.

A fetch that wants a job now is put on the list of its host session. One task a session takes what is on the
list, makes one round of matching of it (``handlers.requests.matchround``), and hands each fetch its result.
What comes meanwhile is the next round's. A fetch that has left by then gets nothing: its offer is taken back.
"""

from __future__ import annotations

import asyncio
import logging
import time

from fetchwork.agent.signals import Signal, first
from fetchwork.errors import FetchworkError
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.requests import matchround
from fetchwork.handlers.requests.fetch import Look
from fetchwork.handlers.requests.matchround import Seeker
from fetchwork.log import event

log = logging.getLogger(__name__)

#: those that are woken together come within this
GATHER_S = 0.001
#: slots that were answered together mostly ask together again: a round waits for as many as the last one had,
#: until so long after that one
TOGETHER_S = 0.08
#: slots of one round: its one claim holds what it locks until all of them are done
MAX_SEEKERS = 32


class MatchRounds:
    """The rounds of one host session."""

    def __init__(self) -> None:
        self._seeking: list[tuple[Seeker, asyncio.Future[Look]]] = []
        self._work: asyncio.Task[None] | None = None
        #: how many the next round waits for, and since when
        self._together = 0
        self._answered_at = 0.0
        self._all_came = Signal()

    async def look(self, seeker: Seeker) -> Look:
        """The result of the next round for this seeker."""
        result: asyncio.Future[Look] = asyncio.get_running_loop().create_future()
        self._seeking.append((seeker, result))
        if len(self._seeking) >= self._together:
            self._all_came.set()
        if self._work is None:
            self._work = asyncio.ensure_future(self._rounds())
        return await result

    async def _rounds(self) -> None:
        """Make rounds until nobody is left on the list."""
        try:
            while self._seeking:
                await self._gather()
                together, self._seeking = self._seeking[:MAX_SEEKERS], self._seeking[MAX_SEEKERS:]
                await self._round([one for one in together if not one[1].done()])
                # fewer at a time, where not all ask again
                self._together = max(len(together), self._together * 3 // 4)
                self._answered_at = time.monotonic()
        finally:
            self._work = None

    async def _gather(self) -> None:
        """Let those come that come together."""
        await asyncio.sleep(GATHER_S)
        left_s = self._answered_at + TOGETHER_S - time.monotonic()
        if len(self._seeking) < self._together and left_s > 0:
            self._all_came.clear()
            await first(left_s, self._all_came)

    async def _round(self, together: list[tuple[Seeker, asyncio.Future[Look]]]) -> None:
        if not together:
            return
        try:
            await matchround.look([seeker for seeker, _ in together])
        except BaseException as error:
            # a defect, or the agent's end: nobody is left waiting for the answer
            for _, result in together:
                if not result.done():
                    result.set_exception(error) if isinstance(error, Exception) else result.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for seeker, result in together:
            found = seeker.result
            if result.done():
                await self._undo(found)
            elif isinstance(found, Look):
                result.set_result(found)
            else:
                assert found is not None
                result.set_exception(found)

    @staticmethod
    async def _undo(found: Look | FetchworkError | None) -> None:
        """Take back what nobody waits for any more."""
        if isinstance(found, Look) and found.offer is not None and found.offer.undo is not None:
            try:
                await found.offer.undo()
            except FetchworkError as error:
                # the offer's own deadline does it later
                event(log, logging.WARNING, "offer_not_withdrawn", problem=error)


class Matchmaking:
    """The rounds of every session."""

    def __init__(self) -> None:
        self._of: dict[HostSession, MatchRounds] = {}

    async def look(self, seeker: Seeker) -> Look:
        """The result of the next round of the seeker's session."""
        return await self._of.setdefault(seeker.attempt.session, MatchRounds()).look(seeker)
