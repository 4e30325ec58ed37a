"""What wakes waiting fetches: the database's notifications, and the clock where none comes."""

from __future__ import annotations

import asyncio
import logging
import random

from fetchwork.agent.lease import Lease
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

    def __init__(self, lease: Lease, waiting: WaitingFetches) -> None:
        self.listening = False
        self._lease = lease
        self._waiting = waiting

    async def listen(self) -> None:
        """Wake waiting fetches when work is notified, for ever."""
        session = self._lease.session
        while True:
            try:
                async for _ in session.database.notifications("fetchwork_work"):
                    self.listening = True
                    self._waiting.wake(session)
            except FetchworkError as error:
                event(log, logging.DEBUG, "listen", database=session.name, problem=error)
                if self.listening:
                    # calls may still wait for it a while: this connection is the first to know
                    self._lease.note_away(error)
            finally:
                self.listening = False
            await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311

    async def wake(self) -> None:
        """Let waiting fetches look now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_S if self.listening else POLL_S)
            self._waiting.wake(self._lease.session)
