"""The connection behind a queue, its memory, and the drivers of its operations (``queue.ask``)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, TypeAlias

from fetchwork.db.calls.call import Call
from fetchwork.db.database import Database
from fetchwork.queue import operations
from fetchwork.queue.ask import Ask, Ended, Evaluate, Found, Item, Memory, Question, Result, Steps, Stream
from fetchwork.queue.reading.views import Json

if TYPE_CHECKING:
    from fetchwork.db.pool import AsyncDatabase
    from fetchwork.queue.submitting.contents import Progress
    from fetchwork.queue.submitting.submission import Description, SubmitResult


_Driven: TypeAlias = Generator[Question | Found[Item], Any, Result]


def default_conninfo(conninfo: str | None) -> str:
    """The connection string: the given one, else FETCHWORK_DSN, else libpq's environment (PGHOST, ...)."""
    return conninfo if conninfo is not None else os.environ.get("FETCHWORK_DSN", "")


def evaluated(question: Evaluate) -> list[bool]:
    """For each ad, whether the constraint is true, by HTCondor's own code."""
    from fetchwork.classad.jsonform import from_json
    from fetchwork.queue.constraints.constraint import Constraint

    constraint = Constraint(question.constraint, "true", (), exact=False)
    return [constraint.accepts(from_json(ad)) for ad in question.ads]


class Session:
    """A connection to a queue's database, made on first use, and the driver of steps."""

    def __init__(self, conninfo: str | None = None) -> None:
        #: as given; None stands for the environment's string
        self.conninfo = conninfo
        self.database = Database(default_conninfo(conninfo))
        self.memory = Memory()
        #: called with the number of rows of a long view that were read, after each piece
        self.looked: Callable[[int], None] | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self.database.close()

    def perform(self, name: str, /, **arguments: object) -> Any:
        """The result of an operation by its name (``operations.STEPS``)."""
        return self.run(operations.STEPS[name](self.memory, **arguments))

    def found(self, name: str, /, **arguments: object) -> Iterator[Sequence[Any]]:
        """The items of an operation by its name (``operations.STREAMS``), in pages."""
        return self.pages(operations.STREAMS[name](self.memory, **arguments))

    def items(self, name: str, /, **arguments: object) -> Iterator[Any]:
        """As ``found``, item by item."""
        for page in self.found(name, **arguments):
            yield from page

    def submit(
        self,
        description: Description,
        *,
        count: int = 0,
        itemdata: Iterable[str | Mapping[str, str]] | None = None,
        owner: str | None = None,
        extra: Mapping[str, object] | None = None,
        queue: str | None = None,
        progress: Progress | None = None,
        key: str | None = None,
    ) -> SubmitResult:
        """Put jobs into the queue (``submission.put``)."""
        from fetchwork.queue.submitting import submission

        return submission.put(
            self.database,
            description,
            count=count,
            itemdata=itemdata,
            owner=owner,
            extra=extra,
            queue=queue,
            progress=progress,
            key=key,
        )

    def retrieve(self, jobs: Sequence[str] | None = None, *, progress: Progress | None = None) -> list[Json]:
        """Deliver outputs of jobs, or of all, to their destinations (``retrieving.retrieve``)."""
        from fetchwork.queue.outputs import retrieving

        return list(retrieving.retrieve(self.database, jobs, progress=progress))

    def check(
        self,
        description: Description,
        *,
        owner: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Raise the errors that ``submit`` would raise, and put nothing into the queue."""
        from fetchwork.queue.submitting import submission

        submission.check(self.database, description, owner=owner, extra=extra)

    def run(self, steps: Steps[Result]) -> Result:
        """Drive steps to their result."""
        end: Found[Never] | Ended[Result] = self._advance(steps)
        assert isinstance(end, Ended)
        return end.result

    def pages(self, stream: Stream[Item]) -> Iterator[Sequence[Item]]:
        """Drive a stream and yield its items as they come, in pages."""
        with contextlib.closing(stream):
            while isinstance(page := self._advance(stream), Found):
                if page.looked_at is not None and self.looked is not None:
                    self.looked(page.looked_at)
                if page.items:
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

    def _answer(self, step: Question) -> object:
        if isinstance(step, Ask):
            return self.database.query(step.sql, step.params)
        if isinstance(step, Call):
            return self.database.run(step)
        if isinstance(step, Evaluate):
            return evaluated(step)
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

    async def found(self, stream: Stream[Item]) -> AsyncIterator[Found[Item]]:
        """Drive a stream and yield its pages, empty ones too."""
        with contextlib.closing(stream):
            while isinstance(page := await self._advance(stream), Found):
                yield page

    async def each(self, stream: Stream[Item]) -> AsyncIterator[Item]:
        """As ``Session.each``."""
        async for page in self.found(stream):
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
            answer = await self.answer(step)

    async def answer(self, step: Question) -> object:
        if isinstance(step, Ask):
            return await self.database.query(step.sql, step.params, kept=step.often)
        if isinstance(step, Call):
            return await self.database.run(step)
        if isinstance(step, Evaluate):
            return evaluated(step)
        await asyncio.sleep(step.seconds)
        return None
