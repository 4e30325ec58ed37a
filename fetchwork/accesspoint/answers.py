"""Answers to reading requests, by the asker's rights; equal requests at one time share one database query.

A thousand programs that poll cost one poll. An answer is given again to a request with the same question and
the same rights, if it is at most a second old and not older than that person's last change through the access
point. Only answers of a bounded size are kept; a longer answer goes to its reader page by page, at the
reader's pace.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable

from fetchwork.client.link import CHANGES
from fetchwork.db.pool import AsyncDatabase
from fetchwork.ipc.frames import Json, encode
from fetchwork.queue.ask import Ask, Evaluate, Memory, Pause, Question
from fetchwork.queue.operations import STEPS, STREAMS
from fetchwork.queue.session import AsyncSession

#: seconds for which an answer is given again
FRESH_S = 1.0
#: bytes of one kept answer, and of all kept answers
KEEP = 4 * 1024 * 1024
KEEP_ALL = 64 * 1024 * 1024
#: least seconds between two queries of a request that waits for events
LEAST_PAUSE_S = 0.1

Evaluates = Callable[[Evaluate], Awaitable[list[bool]]]


class ActingSession(AsyncSession):
    """A session with one account's rights; ``evaluates`` evaluates its constraints."""

    def __init__(
        self, database: AsyncDatabase, owner: str | None, memory: Memory, evaluates: Evaluates
    ) -> None:
        super().__init__(database)
        self.memory = memory
        self._owner = owner
        self._evaluates = evaluates

    async def answer(self, step: Question) -> object:
        if isinstance(step, Ask):
            return await self.database.query(step.sql, step.params, acting_for=self._owner)
        if isinstance(step, Evaluate):
            return await self._evaluates(step)
        if isinstance(step, Pause):
            await asyncio.sleep(max(step.seconds, LEAST_PAUSE_S))
            return None
        return await self.database.run(step, acting_for=self._owner)


async def frames(session: AsyncSession, op: str, arguments: Json) -> AsyncIterator[bytes]:
    """Yield the frames of an operation's answer."""
    if op in STREAMS:
        async for page in session.found(STREAMS[op](session.memory, **arguments)):
            looked = {} if page.looked_at is None else {"looked_at": page.looked_at}
            yield encode({"page": list(page.items), **looked})
        yield encode({"done": None})
    else:
        yield encode({"done": await session.run(STEPS[op](session.memory, **arguments))})


class _Kept:
    """An answer, complete or in the making."""

    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        #: None: the answer is too long to keep, or failed
        self.frames: asyncio.Future[list[bytes] | None] = asyncio.get_running_loop().create_future()
        self.size = 0


class Answers:
    """The kept answers, by owner and question."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str | None, str, str], _Kept] = OrderedDict()
        self._size = 0
        self._changed_at: dict[str | None, float] = {}
        #: requests that got a kept answer
        self.shared = 0

    def changed(self, owner: str | None) -> None:
        """Note a change by this owner: older answers are not given to the owner again."""
        now = time.monotonic()
        # root sees the jobs of all owners, and may have made the change
        self._changed_at[owner] = self._changed_at[None] = now
        for other, at in list(self._changed_at.items()):
            if now - at > FRESH_S:
                del self._changed_at[other]

    async def give(
        self,
        owner: str | None,
        op: str,
        arguments: Json,
        make: Callable[[], AsyncIterator[bytes]],
        send: Callable[..., Awaitable[None]],
    ) -> None:
        """Send the answer of an operation: a kept answer, or the frames that ``make`` yields."""
        if op in CHANGES:
            try:
                async for frame in make():
                    self.changed(owner)
                    await send(frame)
            finally:
                self.changed(owner)
            return
        if op in ("events", "cursor"):
            async for frame in make():
                await send(frame)
            return
        key = (owner, op, json.dumps(arguments, sort_keys=True))
        while (kept := self._known(key)) is not None:
            left = kept.asked_at + FRESH_S - time.monotonic()
            # the answer's first reader may be slow
            await asyncio.wait({kept.frames}, timeout=left)
            known = kept.frames.result() if kept.frames.done() else None
            if known is not None and self._known(key) is kept:
                self.shared += 1
                await send(*known)
                return
        await self._make(key, make, send)

    def _known(self, key: tuple[str | None, str, str]) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        fresh_from = max(time.monotonic() - FRESH_S, self._changed_at.get(key[0], 0.0))
        return kept if kept.asked_at > fresh_from else None

    async def _make(
        self,
        key: tuple[str | None, str, str],
        make: Callable[[], AsyncIterator[bytes]],
        send: Callable[..., Awaitable[None]],
    ) -> None:
        kept = _Kept()
        self._drop(key)
        self._kept[key] = kept
        parts: list[bytes] = []
        try:
            async for frame in make():
                if kept.size <= KEEP:
                    parts.append(frame)
                    kept.size += len(frame)
                    if kept.size > KEEP:
                        # waiting requests now ask the database themselves
                        self._forget(key, kept)
                        parts.clear()
                await send(frame)
            if kept.size <= KEEP and not kept.frames.done():
                kept.frames.set_result(parts)
                # a slow answer may have been replaced by a newer one: then it isn't kept and doesn't count
                if self._kept.get(key) is kept:
                    self._size += kept.size
                    self._make_room()
        finally:
            if not kept.frames.done():
                self._forget(key, kept)

    def _forget(self, key: tuple[str | None, str, str], kept: _Kept) -> None:
        if not kept.frames.done():
            kept.frames.set_result(None)
        if self._kept.get(key) is kept:
            del self._kept[key]

    def _drop(self, key: tuple[str | None, str, str]) -> None:
        old = self._kept.pop(key, None)
        if old is not None and old.frames.done() and old.frames.result() is not None:
            self._size -= old.size

    def _make_room(self) -> None:
        """Drop stale answers, and the oldest ones if all together are too large."""
        stale = time.monotonic() - FRESH_S
        for key, kept in list(self._kept.items()):
            if kept.frames.done() and (kept.asked_at < stale or self._size > KEEP_ALL):
                self._drop(key)
