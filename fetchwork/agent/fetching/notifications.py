"""The database's notifications and the clock, which wake waiting fetches and the agent itself.

A notification names its subject (sql/functions/matching/tell_demand.sql). ``matching.demand`` keeps its
content, and says whether and when a match round is worth while: the announcement of one job brings some of a
thousand agents, not all at once. A round without a new job that may fit asks the database nothing. An
announcement of runs that must end names the host, whose agent then asks for these runs.

While PostgreSQL's queue of notifications is nearly full, the database sends none
(sql/functions/notifications/sends_notifications.sql). The agent asks every second or so whether it sends any.
While it does not, waiting fetches join a match round, and the lease beats, after each question.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time

from fetchwork.agent.fetching.longpoll import WaitingFetches
from fetchwork.agent.lease import Lease
from fetchwork.agent.runs.liveoutput import LiveOutputs
from fetchwork.db.calls import maintenance
from fetchwork.errors import FetchworkError
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds until waiting fetches join a match round without a notification: limits and backoffs end in silence
LOOK_S = 5.0
#: the same if notifications do not arrive
POLL_S = 1.0
#: seconds until the agent asks again whether the database sends notifications: a job that comes when their
#: queue has just filled up waits as long
ASK_S = 1.25
CALL_S = 5.0


class WorkNotifications:
    """The notifications of new work from one database."""

    def __init__(self, lease: Lease, waiting: WaitingFetches, outputs: LiveOutputs) -> None:
        #: notifications arrive from the database, if it sends any
        self.listening = False
        self._sent = True
        self._lease = lease
        self._waiting = waiting
        self._outputs = outputs
        self._next: asyncio.TimerHandle | None = None

    async def listen(self) -> None:
        """Keep the notified changes, and wake waiting fetches when that may help them, for ever."""
        session = self._lease.session
        demand = session.demand
        while True:
            try:
                async for note in session.database.notifications("fetchwork_work"):
                    if not self.listening:
                        # readings from now on are kept current
                        self.listening = True
                        demand.live = self._sent
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
                    # this connection is the first to know; calls may still wait for the database for a while
                    self._lease.note_away(error)
            finally:
                self.listening = demand.live = False
            await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311

    def _is_for_us(self, note: str) -> bool:
        """Whether a notification names this host.

        It is about runs that must end (sql/functions/runs/tell_host.sql), or whose output a person watches.
        """
        greeting = self._lease.session.greeting
        try:
            return greeting is not None and json.loads(note)[1:] == [greeting.host_id]
        except (ValueError, TypeError):
            return False

    async def wake(self) -> None:
        """Let waiting fetches join match rounds now and then, for ever."""
        session = self._lease.session
        look_at = 0.0
        while True:
            await asyncio.sleep(random.uniform(0.8, 1.2) * (ASK_S if self.listening else POLL_S))  # noqa: S311
            if self.listening:
                await self._ask_whether_sent()
            now = time.monotonic()
            if not session.demand.live or now >= look_at:
                self._waiting.wake(session)
                look_at = now + random.uniform(0.8, 1.2) * LOOK_S  # noqa: S311

    async def _ask_whether_sent(self) -> None:
        """Ask whether the database sends notifications; while it sends none, beat to hear of runs to end."""
        session = self._lease.session
        demand = session.demand
        try:
            sent = await session.database.run(maintenance.sends_notifications(), timeout_s=CALL_S)
        except FetchworkError:
            # the lease and the listening connection report the problem
            return
        before, self._sent = self._sent, sent
        if sent != before:
            level = logging.INFO if sent else logging.WARNING
            event(log, level, "notifications", database=session.name, sent=sent)
        if not sent:
            demand.live = False
            self._lease.beat_soon()
        # one round later, because a transaction that sent no notification may have committed meanwhile
        elif before and self.listening and not demand.live:
            demand.forget()
            demand.live = True

    def _wake_in(self, seconds: float) -> None:
        """Wake waiting fetches after so many seconds, or sooner if that is planned already."""
        loop = asyncio.get_running_loop()
        if self._next is not None:
            if self._next.when() <= loop.time() + seconds:
                return
            self._next.cancel()
        self._next = loop.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._next = None
        # if many agents heard of one job, the first of them may have taken it
        if self._lease.session.demand.may_have_more(time.monotonic()):
            self._waiting.wake(self._lease.session)
