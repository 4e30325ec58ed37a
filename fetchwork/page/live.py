"""Signals of change for browsers: one reader of events for all pages of a person."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fetchwork.page import questions
from fetchwork.page.acting import Person
from fetchwork.page.problem import Problem
from fetchwork.page.workers import Workers

#: seconds between two reads of the events, and between two signs of life
POLL_S = 1.0
SILENCE_S = 15.0
#: live pages at once, of one person and of all
EACH = 20
ALL = 500


class Live:
    """Signals of change, for each person."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._watches: dict[Person, _Watch] = {}
        self._closed = False

    async def close(self) -> None:
        """End every stream."""
        self._closed = True
        for watch in list(self._watches.values()):
            await watch.close()
        self._watches.clear()

    def begin(self, person: Person) -> AsyncIterator[str]:
        """Server-sent events: "changed" after each change that the person may see; raises Problem.

        A page that leaves before it asks for the first event leaves no state.
        """
        if self._is_full(person):
            raise Problem(
                503, "too many pages", "too many pages are live at once; this one shows what it has"
            )
        return self._stream(person)

    def _is_full(self, person: Person) -> bool:
        watch = self._watches.get(person)
        total = sum(len(each.listeners) for each in self._watches.values())
        return total >= ALL or (watch is not None and len(watch.listeners) >= EACH)

    async def _stream(self, person: Person) -> AsyncIterator[str]:
        # others may have begun in between; and a page whose stream ended asks again
        if self._closed or self._is_full(person):
            return
        watch = self._watches.get(person)
        if watch is None:
            watch = self._watches[person] = _Watch(self._workers, person)
        changed = watch.enter()
        try:
            yield "retry: 5000\n\n"
            while not watch.closed:
                try:
                    await asyncio.wait_for(changed.wait(), SILENCE_S)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if watch.closed:
                    return
                changed.clear()
                yield "event: changed\ndata: {}\n\n"
        finally:
            watch.listeners.discard(changed)
            if not watch.listeners:
                if self._watches.get(person) is watch:
                    del self._watches[person]
                await watch.close()


class _Watch:
    """The events of one person, read while live pages are open."""

    def __init__(self, workers: Workers, person: Person) -> None:
        self.person = person
        self.listeners: set[asyncio.Event] = set()
        self.closed = False
        #: pages that no read has begun after
        self._new: set[asyncio.Event] = set()
        self._workers = workers
        self._task = asyncio.ensure_future(self._read())

    def enter(self) -> asyncio.Event:
        """Return a new listener: an event that is set after a change, and once after the first read.

        The page was rendered before that read, so it may lack a change that lies before the cursor.
        """
        changed = asyncio.Event()
        self.listeners.add(changed)
        self._new.add(changed)
        return changed

    async def close(self) -> None:
        """Read no more, and end the streams."""
        self.closed = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        for listener in self.listeners:
            listener.set()

    async def _read(self) -> None:
        cursor = "now"
        while True:
            new, self._new = self._new, set()
            try:
                answer = await self._workers.ask(self.person, questions.events, after=cursor, job=None)
            except Problem:
                # the database is away, or events were dropped: the page is refreshed even so
                cursor = "now"
                self._new |= self.listeners
            else:
                cursor = answer["cursor"]
                for listener in self.listeners if answer["events"] else new:
                    listener.set()
            await asyncio.sleep(POLL_S)
