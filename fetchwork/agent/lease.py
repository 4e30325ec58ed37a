"""The agent's lease with one database: hello, beats, the database's absence, goodbye.

While the lease is kept, the database counts this host's runs as alive. After a silence as long as the lease,
other hosts may have got their jobs, so the agent says hello again like a new host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.db.calls import hosts
from fetchwork.errors import DatabaseUnavailable, FetchworkError, HostTaken
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.session import HostSession
from fetchwork.log import event

log = logging.getLogger(__name__)

CALL_S = 5.0
#: seconds between two rounds, which do the work that is due
ROUND_S = 0.5
#: if another agent has the host, this agent asks for it again at this interval
TAKEN_S = 4.0
#: the list of live runs is compared with the database's
RUNS_S = 60.0
#: the same after a claim without an answer, whose jobs wait meanwhile; by then the server has ended the call
UNHEARD_S = 10.0

T = TypeVar("T")


class Lease:
    """The lease with the database of ``context``; other keywords may share the database.

    ``on_back`` is called when the database answers again.
    """

    def __init__(
        self,
        context: KeywordContext,
        runs: WatchedRuns,
        agent_id: str,
        on_back: Callable[[HostSession], None],
    ) -> None:
        self.session = context.session
        self._context = context
        self._runs = runs
        self._agent_id = agent_id
        self._on_back = on_back
        self._renewing = asyncio.Lock()
        self._away = False
        self._beat_due = 0.0
        self._hello_due = 0.0
        self._runs_due = 0.0
        #: set for a round of ``keep`` that is to come soon
        self.soon = asyncio.Event()

    def beat_soon(self) -> None:
        """Ask the database soon for the runs that must end."""
        self._beat_due = 0.0
        self.soon.set()

    async def keep(self) -> None:
        """Make one round: hello and beat, as each is due; nothing slow in between."""
        try:
            await self._keep()
        except HostTaken:
            # the session has logged it: the database is there
            self._hello_due = time.monotonic() + random.uniform(0.5, 1.0) * TAKEN_S  # noqa: S311
            raise
        except DatabaseUnavailable as error:
            self.note_away(error)
            raise
        if self._away:
            self._away = False
            event(log, logging.INFO, "database_back", database=self.session.name)
            # a crash may have lost a claim, and a new primary waits for a beat of each host
            self._runs_due = self._beat_due = 0.0
            self._on_back(self.session)

    async def _keep(self) -> None:
        now = time.monotonic()
        greeting = self.session.greeting
        if now < self._hello_due:
            return
        if greeting is None or self.session.cut_off:
            # after so long a silence the host counts as new: other hosts may have its jobs by now
            greeting = await self._renew(self.session.say_hello(CALL_S))
            self._runs_due = now
        if self._beat_due <= now:
            # set before the beat: a beat requested meanwhile then follows this one
            self._beat_due = now + random.uniform(0.8, 1.0) * greeting.lease_s / 3  # noqa: S311
            try:
                await self._renew(self._beat())
            except FetchworkError:
                self._beat_due = now
                raise

    async def look_after_runs(self) -> None:
        """Compare the live runs with the database's now and then; ``keep`` must not wait for it."""
        now = time.monotonic()
        known = self.session.greeting is not None
        if self.session.has_unheard_claim:
            self.session.has_unheard_claim = False
            self._runs_due = min(self._runs_due, now + UNHEARD_S)
        if known and (self._runs_due <= now or self.session in self._runs.unknown_runs):
            await self._runs.take_over(self._context, CALL_S)
            self._runs_due = now + random.uniform(0.8, 1.2) * RUNS_S  # noqa: S311

    async def _renew(self, call: Coroutine[None, None, T]) -> T:
        """Make a call that renews the host's lease; it is not cut short, and goodbye waits for it."""

        async def alone() -> T:
            async with self._renewing:
                return await call

        renewal = asyncio.ensure_future(alone())
        # the agent may end before the call is done
        renewal.add_done_callback(_read_failure)
        return await asyncio.shield(renewal)

    async def _beat(self) -> None:
        orders = await self.session.beat(self._runs.alive(self.session), CALL_S)
        for order in orders:
            event(log, logging.DEBUG, "beat", run=order.run_id, action=order.action)
        self._runs.orders.take(self.session, orders)

    def note_away(self, problem: FetchworkError) -> None:
        """Note that the database does not answer; the first time it is logged."""
        if not self._away:
            self._away = True
            event(log, logging.WARNING, "database_away", database=self.session.name, problem=problem)

    async def goodbye(self, patience_s: float) -> None:
        """End the lease, so that the host's runs keep their own time, and close the connections."""
        with contextlib.suppress(FetchworkError, TimeoutError):
            async with asyncio.timeout(2 * patience_s), self._renewing:
                greeting = self.session.greeting
                if greeting is not None:
                    await self.session.lease_database.run(
                        hosts.goodbye(host_id=greeting.host_id, agent_id=self._agent_id),
                        timeout_s=patience_s,
                    )
        await self.session.close()


def _read_failure(renewal: asyncio.Future[T]) -> None:
    if not renewal.cancelled():
        renewal.exception()
