"""The connection behind a queue, what it remembers, and the drivers of its operations (``queue.ask``)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Never, TypeAlias

from fetchwork.db.calls import Call
from fetchwork.db.database import Database
from fetchwork.queue.ask import Ask, Ended, Found, Item, Memory, Pause, Result, Steps, Stream

if TYPE_CHECKING:
    from fetchwork.db.pool import AsyncDatabase


#: the attribute of a schedd's location ad that says which database it is
CONNINFO = "FetchWorkConninfo"

_Question: TypeAlias = Ask | Call[Any] | Pause
_Driven: TypeAlias = Generator[_Question | Found[Item], Any, Result]


def default_conninfo(conninfo: str | None) -> str:
    """The connection string: the one given, else FETCHWORK_DSN, else what libpq finds (PGHOST, ...)."""
    return conninfo if conninfo is not None else os.environ.get("FETCHWORK_DSN", "")


class Session:
    """A connection to a queue's database, made when first needed, and the driver of steps."""

    def __init__(self, conninfo: str | None = None) -> None:
        #: as given; None stands for the environment's
        self.conninfo = conninfo
        self.database = Database(default_conninfo(conninfo))
        self.memory = Memory()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        self.database.close()

    def run(self, steps: Steps[Result]) -> Result:
        """Drive steps to their result."""
        end: Found[Never] | Ended[Result] = self._advance(steps)
        assert isinstance(end, Ended)
        return end.result

    def pages(self, stream: Stream[Item]) -> Iterator[Sequence[Item]]:
        """Drive a stream and yield its items as they come, several at once."""
        with contextlib.closing(stream):
            while isinstance(page := self._advance(stream), Found):
                yield page.items

    def each(self, stream: Stream[Item]) -> Iterator[Item]:
        """Drive a stream and yield its items."""
        for page in self.pages(stream):
            yield from page

    def _advance(self, steps: _Driven[Item, Result]) -> Found[Item] | Ended[Result]:
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return Ended(end.value)
            if isinstance(step, Found):
                return step
            answer = self._answer(step)

    def _answer(self, step: _Question) -> object:
        if isinstance(step, Ask):
            return self.database.query(step.sql, step.params)
        if isinstance(step, Call):
            return self.database.run(step)
        time.sleep(step.seconds)
        return None


class AsyncSession:
    """``Session`` for programs with an event loop."""

    def __init__(self, database: AsyncDatabase) -> None:
        self.database = database
        self.memory = Memory()

    async def run(self, steps: Steps[Result]) -> Result:
        """As ``Session.run``."""
        end: Found[Never] | Ended[Result] = await self._advance(steps)
        assert isinstance(end, Ended)
        return end.result

    async def each(self, stream: Stream[Item]) -> AsyncIterator[Item]:
        """As ``Session.each``."""
        with contextlib.closing(stream):
            while isinstance(page := await self._advance(stream), Found):
                for item in page.items:
                    yield item

    async def _advance(self, steps: _Driven[Item, Result]) -> Found[Item] | Ended[Result]:
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return Ended(end.value)
            if isinstance(step, Found):
                return step
            answer = await self._answer(step)

    async def _answer(self, step: _Question) -> object:
        if isinstance(step, Ask):
            return await self.database.query(step.sql, step.params)
        if isinstance(step, Call):
            return await self.database.run(step)
        await asyncio.sleep(step.seconds)
        return None
