"""Match rounds: fetches that want a job at the same moment are matched together.

A fetch that wants a job now is put on the list of its host session. One task of each session takes the
fetches from the list, makes one match round of them (``handlers.requests.matchround``), and hands each its
result. Fetches that come meanwhile join the next round. If a fetch has left by then, its offer is taken back.
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

#: seconds within which fetches come that were woken together
GATHER_S = 0.001
#: seconds after a round in which the next one waits for as many fetches: slots that were answered together
#: mostly ask together again
TOGETHER_S = 0.08
#: most slots of one round: its single claim holds its locks until all of them are done
MAX_SEEKERS = 32


class MatchRounds:
    """The match rounds of one host session."""

    def __init__(self) -> None:
        self._seeking: list[tuple[Seeker, asyncio.Future[Look]]] = []
        self._work: asyncio.Task[None] | None = None
        #: number of fetches that the next round waits for, and the end of the last round
        self._together = 0
        self._answered_at = 0.0
        self._all_came = Signal()

    async def look(self, seeker: Seeker) -> Look:
        """Return the result of the next round for this seeker."""
        result: asyncio.Future[Look] = asyncio.get_running_loop().create_future()
        self._seeking.append((seeker, result))
        if len(self._seeking) >= self._together:
            self._all_came.set()
        if self._work is None:
            self._work = asyncio.ensure_future(self._rounds())
        return await result

    async def _rounds(self) -> None:
        """Make rounds until the list is empty."""
        try:
            while self._seeking:
                await self._gather()
                together, self._seeking = self._seeking[:MAX_SEEKERS], self._seeking[MAX_SEEKERS:]
                await self._round([seeking for seeking in together if not seeking[1].done()])
                # decreases gradually if not all ask again
                self._together = max(len(together), self._together * 3 // 4)
                self._answered_at = time.monotonic()
        finally:
            self._work = None

    async def _gather(self) -> None:
        """Wait briefly so that fetches arriving together share a round."""
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
            # a defect, or the agent's end: no fetch may be left waiting for its answer
            for _, result in together:
                if not result.done():
                    result.set_exception(error) if isinstance(error, Exception) else result.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for seeker, result in together:
            answer = seeker.result
            if result.done():
                await self._undo(answer)
            elif isinstance(answer, Look):
                result.set_result(answer)
            else:
                assert answer is not None
                result.set_exception(answer)

    @staticmethod
    async def _undo(answer: Look | FetchworkError | None) -> None:
        """Take back the offer to a fetch that has left."""
        if isinstance(answer, Look) and answer.offer is not None and answer.offer.undo is not None:
            try:
                await answer.offer.undo()
            except FetchworkError as error:
                # the offer is withdrawn later, at its own deadline
                event(log, logging.WARNING, "offer_not_withdrawn", problem=error)


class Matchmaking:
    """The match rounds of all sessions."""

    def __init__(self) -> None:
        self._of: dict[HostSession, MatchRounds] = {}

    async def look(self, seeker: Seeker) -> Look:
        """Return the seeker's result of the next round of its session."""
        return await self._of.setdefault(seeker.attempt.session, MatchRounds()).look(seeker)
