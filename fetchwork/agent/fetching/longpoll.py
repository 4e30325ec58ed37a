"""The list of fetches that wait in the agent for work, and the reasons to wake or end them."""

from __future__ import annotations

import asyncio
import itertools
import re
import time

from fetchwork.agent.signals import Signal, first
from fetchwork.handlers.host.session import HostSession

#: least seconds between two match rounds of a fetch, and more for each fetch that waits beside it
LOOK_PAUSE_S = 0.1
LOOK_PAUSE_EACH_S = 0.005
#: most other slots with which a job's Rank compares a slot
MAX_OTHERS = 32
#: seconds that a startd takes to delete an idle dynamic slot
DELETED_S = 0.5
_DYNAMIC = re.compile(r"(slot\d+)_\d+(@.*)")


class WaitingFetches:
    """All waiting fetches of the host, ``limit`` of them at most."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._waiting: set[WaitingFetch] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(
        self, session: HostSession, slot_name: str, gone: Signal, slot: bytes | None = None
    ) -> WaitingFetch | None:
        """Add a slot's fetch, whose hook sets ``gone`` when it leaves; None if no more may wait.

        ``slot`` is the slot's ad if it could get a job at once, so that other slots may be compared with it.
        """
        if self._closed or len(self._waiting) >= self.limit:
            return None
        waiting = WaitingFetch(self, session, slot_name, gone, slot)
        self._waiting.add(waiting)
        return waiting

    def leave(self, waiting: WaitingFetch) -> None:
        """Remove a fetch that has stopped waiting."""
        self._waiting.discard(waiting)

    def wake(self, session: HostSession) -> None:
        """Wake the fetches of a database whose queue may have changed."""
        for waiting in self._waiting:
            if waiting.session is session:
                waiting.woken.set()

    def resources_return(self, session: HostSession, slot_name: str) -> None:
        """Note that a slot is idle: if it is dynamic, end the fetch of its partitionable slot soon.

        That fetch names the resources that were free when it began. The startd deletes an idle dynamic slot,
        and fetches again with the returned resources.
        """
        dynamic = _DYNAMIC.fullmatch(slot_name)
        if dynamic is not None:
            partitionable = dynamic[1] + dynamic[2]
            asyncio.get_running_loop().call_later(DELETED_S, self._end, session, partitionable)

    def _end(self, session: HostSession, slot_name: str) -> None:
        for waiting in self._waiting:
            if waiting.session is session and waiting.slot_name == slot_name:
                waiting.outdated.set()

    def beside(self, fetch: WaitingFetch) -> list[bytes]:
        """Return the slot ads of other fetches that wait for the same database, at most ``MAX_OTHERS``."""
        others = (
            waiting.slot
            for waiting in self._waiting
            if waiting is not fetch and waiting.session is fetch.session and waiting.slot is not None
        )
        return list(itertools.islice(others, MAX_OTHERS))

    def end_all(self) -> None:
        """Answer every waiting fetch with "no work"; later fetches may wait again."""
        for waiting in self._waiting:
            waiting.outdated.set()

    def close(self) -> None:
        """Answer every waiting fetch with "no work" and accept no more."""
        self._closed = True
        for waiting in self._waiting:
            waiting.woken.set()

    @property
    def closed(self) -> bool:
        """Whether all waiting fetches have to end."""
        return self._closed

    @property
    def pause_s(self) -> float:
        """The least seconds between two match rounds of one fetch."""
        return LOOK_PAUSE_S + LOOK_PAUSE_EACH_S * len(self._waiting)


class WaitingFetch:
    """One waiting fetch."""

    def __init__(
        self,
        fetches: WaitingFetches,
        session: HostSession,
        slot_name: str,
        gone: Signal,
        slot: bytes | None,
    ) -> None:
        self.session = session
        self.slot_name = slot_name
        self.slot = slot
        self.woken = Signal()
        #: set when the slot's ad is no longer right
        self.outdated = Signal()
        self._fetches = fetches
        self._gone = gone
        self._looked_at = time.monotonic()

    async def wait(self, timeout_s: float) -> bool:
        """Wait to be woken or for the time to pass; False if the fetch has to end now."""
        await first(timeout_s, self.woken, self._gone, self.outdated)
        # so a burst of submits leads to one match round
        pause = self._looked_at + self._fetches.pause_s - time.monotonic()
        if pause > 0 and not self.is_over:
            await first(pause, self._gone, self.outdated)
        self.woken.clear()
        self._looked_at = time.monotonic()
        return not self.is_over

    async def wait_for(self, event: Signal, timeout_s: float) -> bool:
        """Wait for ``event``; False if it does not come in time, or the fetch has to end now."""
        end = time.monotonic() + timeout_s
        while not event.is_set() and not self.is_over and time.monotonic() < end:
            self.woken.clear()
            await first(end - time.monotonic(), event, self.woken, self._gone)
        return event.is_set() and not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the fetch has to end now."""
        return self._fetches.closed or self._gone.is_set() or self.outdated.is_set()
