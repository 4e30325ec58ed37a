"""What wakes waiting fetches, and the agent itself: the database's notifications, and the clock.

A notification says what it is about (sql/functions/matching/tell_demand.sql). ``matching.demand`` keeps what
it says, and tells whether a look is worth while, and when: the news of one job brings some of a thousand
agents, not all at once. A look that finds nothing new that may fit asks the database nothing. News of runs
that shall end name the host, whose agent then asks which.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time

from fetchwork.agent.lease import Lease
from fetchwork.agent.liveoutput import LiveOutputs
from fetchwork.agent.longpoll import WaitingFetches
from fetchwork.errors import FetchworkError
from fetchwork.log import event

log = logging.getLogger(__name__)

#: waiting fetches look again after this even without a notification: limits and rests end in silence
LOOK_S = 5.0
#: the same where notifications do not arrive
POLL_S = 1.0


class WorkNotifications:
    """The notifications of new work from one database."""

    def __init__(self, lease: Lease, waiting: WaitingFetches, outputs: LiveOutputs) -> None:
        self.listening = False
        self._lease = lease
        self._waiting = waiting
        self._outputs = outputs
        self._next: asyncio.TimerHandle | None = None

    async def listen(self) -> None:
        """Keep what is notified, and wake waiting fetches when that may help them, for ever."""
        session = self._lease.session
        demand = session.demand
        while True:
            try:
                async for note in session.database.notifications("fetchwork_work"):
                    if not self.listening:
                        # what is read from now on is kept current
                        self.listening = demand.live = True
                        demand.forget()
                        self._wake_in(0.0)
                        continue
                    if note.startswith(('["!"', '["o"')):
                        if self._is_for_us(note):
                            self._lease.beat_soon() if note[2] == "!" else self._outputs.watched()
                        continue
                    seconds = demand.heard(note, time.monotonic())
                    if seconds is not None:
                        self._wake_in(seconds)
            except FetchworkError as error:
                event(log, logging.DEBUG, "listen", database=session.name, problem=error)
                if self.listening:
                    # calls may still wait for it a while: this connection is the first to know
                    self._lease.note_away(error)
            finally:
                self.listening = demand.live = False
            await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311

    def _is_for_us(self, note: str) -> bool:
        """Whether a notification of this host's runs names this host.

        Of those that shall end (sql/functions/runs/tell_end.sql), or whose output somebody watches.
        """
        greeting = self._lease.session.greeting
        try:
            return greeting is not None and json.loads(note)[1:] == [greeting.host_id]
        except (ValueError, TypeError):
            return False

    async def wake(self) -> None:
        """Let waiting fetches look now and then, for ever."""
        while True:
            await asyncio.sleep(random.uniform(0.8, 1.2) * (LOOK_S if self.listening else POLL_S))  # noqa: S311
            self._waiting.wake(self._lease.session)

    def _wake_in(self, seconds: float) -> None:
        """Wake waiting fetches after so many seconds, or sooner if that was planned."""
        loop = asyncio.get_running_loop()
        if self._next is not None:
            if self._next.when() <= loop.time() + seconds:
                return
            self._next.cancel()
        self._next = loop.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._next = None
        # where many agents heard of one job, the first of them has taken it
        if self._lease.session.demand.may_have_more(time.monotonic()):
            self._waiting.wake(self._lease.session)
