"""Fetches that wait in the agent for work: how many, what wakes them, what ends them."""

from __future__ import annotations

import asyncio
import itertools
import re
import time

from fetchwork.handlers.context import HeldFetch
from fetchwork.handlers.session import HostSession
from fetchwork.matching.fit import SlotView

#: a fetch looks for work no more often than this, and the less often the more wait beside it
LOOK_PAUSE_S = 0.1
LOOK_PAUSE_EACH_S = 0.005
#: slots that a job's Rank compares one with
MAX_OTHERS = 32
#: a startd takes this long to delete a dynamic slot once it has nothing to do
DELETED_S = 0.5
_DYNAMIC = re.compile(r"(slot\d+)_\d+(@.*)")


class WaitingFetches:
    """All held fetches of the host, ``limit`` of them at most."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: set[Held] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._held)

    def enter(self, session: HostSession, slot: str, gone: asyncio.Event) -> Held | None:
        """Hold a slot's fetch whose hook sets ``gone`` when it leaves; None if no more may wait."""
        if self._closed or len(self._held) >= self.limit:
            return None
        held = Held(self, session, slot, gone)
        self._held.add(held)
        return held

    def leave(self, held: Held) -> None:
        """A fetch waits no more."""
        self._held.discard(held)

    def wake(self, session: HostSession) -> None:
        """Something may have changed in this database's queue."""
        for held in self._held:
            if held.session is session:
                held.woken.set()

    def resources_return(self, session: HostSession, slot: str) -> None:
        """A slot has nothing to do: if it is a dynamic one, what is held of its partitionable slot ends soon.

        Such a fetch tells of the resources that were left when it began. The startd deletes a dynamic slot
        without work, and fetches again with what came back.
        """
        dynamic = _DYNAMIC.fullmatch(slot)
        if dynamic is not None:
            whole = dynamic[1] + dynamic[2]
            asyncio.get_running_loop().call_later(DELETED_S, self._end, session, whole)

    def _end(self, session: HostSession, slot: str) -> None:
        for held in self._held:
            if held.session is session and held.slot == slot:
                held.outdated.set()

    def waits_for(self, session: HostSession) -> bool:
        """Tell whether somebody waits for work from this database."""
        return any(held.session is session for held in self._held)

    def offers(self, but: Held) -> list[SlotView]:
        """The slots of the fetches that are held beside one, up to a number."""
        beside = (held for held in self._held if held is not but and held.session is but.session)
        return list(itertools.islice((held.offer for held in beside if held.offer is not None), MAX_OTHERS))

    def close(self) -> None:
        """Answer every waiting fetch with "no work" and accept no more."""
        self._closed = True
        for held in self._held:
            held.woken.set()

    @property
    def closed(self) -> bool:
        """True once held fetches have to end."""
        return self._closed

    @property
    def pause_s(self) -> float:
        """The shortest time between two looks of one fetch."""
        return LOOK_PAUSE_S + LOOK_PAUSE_EACH_S * len(self._held)


class Held(HeldFetch):
    """One held fetch."""

    def __init__(
        self, waiting_fetches: WaitingFetches, session: HostSession, slot: str, gone: asyncio.Event
    ) -> None:
        self.session = session
        self.slot = slot
        self.woken = asyncio.Event()
        #: set when the slot's ad is not true any more
        self.outdated = asyncio.Event()
        self._lobby = waiting_fetches
        self._gone = gone
        self._looked_at = time.monotonic()

    async def wait(self, timeout_s: float) -> bool:
        """Wait to be woken or for the time to pass; False if the fetch has to end now."""
        await _first(timeout_s, self.woken, self._gone, self.outdated)
        # a burst of submits is one look, not many
        pause = self._looked_at + self._lobby.pause_s - time.monotonic()
        if pause > 0 and not self._over:
            await _first(pause, self._gone, self.outdated)
        self.woken.clear()
        self._looked_at = time.monotonic()
        return not self._over

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait for ``event``; False if it did not come in time, or the fetch has to end now."""
        end = time.monotonic() + timeout_s
        while not event.is_set() and not self._over and time.monotonic() < end:
            self.woken.clear()
            await _first(end - time.monotonic(), event, self.woken, self._gone)
        return event.is_set() and not self._over

    def others(self) -> list[SlotView]:
        """Slots that wait beside this one for work from the same database, some of them if they are many."""
        return self._lobby.offers(self)

    def release(self) -> None:
        """The fetch waits no more."""
        self._lobby.leave(self)

    @property
    def _over(self) -> bool:
        return self._lobby.closed or self._gone.is_set() or self.outdated.is_set()


async def _first(timeout_s: float, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, or the time is over."""
    if any(event.is_set() for event in events):
        return
    waits = [asyncio.ensure_future(event.wait()) for event in dict.fromkeys(events)]
    try:
        await asyncio.wait(waits, timeout=max(0.0, timeout_s), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
