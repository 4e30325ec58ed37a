"""Requests of chains' runners, gathered: the end of a slot's job and its next job are one call for all slots.

A slot that asks alone is asked for at once. Slots that ask during a call travel together in the next one, as
the reports of hooks do (``reports``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fetchwork.db.calls import runs
from fetchwork.db.calls.call import JsonObject
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, FetchworkError

#: an autocluster and a priority
Pair = tuple[int, int]
#: the most slots of one call: its claims hold their locks until all of them are done
MOST_SLOTS = 64


@dataclass(frozen=True, slots=True)
class Wish:
    """The next job that a slot of a chain wants."""

    slot: str
    starter: str | None
    #: the id of the chain's first run
    chain: int
    #: in order of preference, with the weight of each
    choices: Sequence[Pair]
    weights: Sequence[float]
    #: the attributes that the job must have in common with the first, by their lower-case names
    same: JsonObject


@dataclass(slots=True, eq=False)
class _Asking:
    """A slot that waits for a ``next_runs``."""

    #: run, token and report of the job that has ended
    ended: tuple[int, str, JsonObject] | None
    wish: Wish
    end: float
    answer: asyncio.Future[tuple[runs.Next, Pair | None]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ChainReports:
    """The ends of chains' jobs with the claims of the next, gathered over the slots of one host.

    ``hint`` is the claims' hint for a choice; ``took`` learns the position of a job that was claimed.
    """

    def __init__(
        self,
        database: AsyncDatabase,
        compared: Sequence[str],
        hint: Callable[[int, int], int],
        took: Callable[[int, int, int], None],
    ) -> None:
        self._database = database
        self._compared = compared
        self._hint = hint
        self._took = took
        self._asking: list[_Asking] = []
        self._call: asyncio.Task[None] | None = None

    async def next(
        self,
        host_id: int,
        ended: tuple[int, str, JsonObject] | None,
        wish: Wish,
        *,
        lease_s: float,
        timeout_s: float,
    ) -> tuple[runs.Next, Pair | None]:
        """End a run by its id, token and report, and start the slot's next; return it and its choice.

        A run that has not ended (``Next.ended`` is False) needs ``RunReports.finish``. DatabaseUnavailable
        leaves open whether the run has ended; the call must not be repeated.
        """
        asking = _Asking(ended, wish, time.monotonic() + timeout_s)
        self._asking.append(asking)
        if self._call is None:
            self._call = asyncio.ensure_future(self._calls(host_id, lease_s))
        return await asking.answer

    async def close(self) -> None:
        """End the call; the slots that wait for it fail."""
        if self._call is not None:
            self._call.cancel()
            await asyncio.gather(self._call, return_exceptions=True)

    async def _calls(self, host_id: int, lease_s: float) -> None:
        """Make calls until no slot asks any more."""
        together: list[_Asking] = []
        try:
            while self._asking:
                # requests of the same turn of the event loop go together
                await asyncio.sleep(0)
                together, self._asking = self._asking[:MOST_SLOTS], self._asking[MOST_SLOTS:]
                try:
                    await self._ask(host_id, lease_s, together)
                except FetchworkError as error:
                    for asking in together:
                        if not asking.answer.done():
                            asking.answer.set_exception(error)
        finally:
            self._call = None
            for asking in [*together, *self._asking]:
                if not asking.answer.done():
                    asking.answer.set_exception(DatabaseUnavailable("database connection is closed"))

    async def _ask(self, host_id: int, lease_s: float, together: Sequence[_Asking]) -> None:
        numbers: dict[Pair, int] = {}
        ends: list[tuple[int, str, JsonObject]] = []
        slots = []
        for asking in together:
            if asking.ended is not None:
                ends.append(asking.ended)
            wish = asking.wish
            slots.append(
                {
                    "slot": wish.slot,
                    "exclusive": True,
                    "choices": [numbers.setdefault(pair, len(numbers) + 1) for pair in wish.choices],
                    "weights": list(wish.weights),
                    "end": len(ends) if asking.ended is not None else None,
                    "starter": wish.starter,
                    "chain": wish.chain,
                    "same": wish.same,
                }
            )
        pairs = list(numbers)
        rows = await self._database.run(
            runs.next_runs(
                host_id=host_id,
                end_ids=[run_id for run_id, _, _ in ends],
                end_tokens=[token for _, token, _ in ends],
                reports=[report for _, _, report in ends],
                autoclusters=[number for number, _ in pairs],
                prios=[prio for _, prio in pairs],
                hints=[self._hint(*pair) for pair in pairs],
                slots=slots,
                compared=self._compared,
                lease_s=lease_s,
            ),
            timeout_s=max(0.05, max(asking.end for asking in together) - time.monotonic()),
            # a repeated call would take other jobs
            again=False,
        )
        for row in rows:
            pair = pairs[row.choice - 1] if row.choice is not None else None
            if pair is not None and row.position is not None:
                self._took(*pair, row.position)
            answer = together[row.slot_number - 1].answer
            if not answer.done():
                answer.set_result((row, pair))
