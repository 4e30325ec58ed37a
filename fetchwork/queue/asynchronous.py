"""``AsyncQueue``: ``Queue`` for programs with an event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from fetchwork.db.pool import AsyncDatabase
from fetchwork.queue import operations
from fetchwork.queue.session import AsyncSession, default_conninfo
from fetchwork.queue.synchronous import Queue

__all__ = ["AsyncQueue"]

P = ParamSpec("P")
Made = TypeVar("Made")


def _awaited(
    method: Callable[Concatenate[Queue, P], Made],
) -> Callable[Concatenate[AsyncQueue, P], Coroutine[Any, Any, Made]]:
    """A method of ``Queue`` that returns the result of ``_ask`` or ``_list``."""
    return cast("Callable[Concatenate[AsyncQueue, P], Coroutine[Any, Any, Made]]", method)


def _iterated(
    method: Callable[Concatenate[Queue, P], Iterator[Made]],
) -> Callable[Concatenate[AsyncQueue, P], AsyncIterator[Made]]:
    """A method of ``Queue`` that returns the result of ``_each``."""
    return cast("Callable[Concatenate[AsyncQueue, P], AsyncIterator[Made]]", method)


def _in_thread(
    method: Callable[Concatenate[Queue, P], Made],
) -> Callable[Concatenate[AsyncQueue, P], Coroutine[Any, Any, Made]]:
    """A method of ``Queue`` that reads or writes files; it runs in a thread with a separate ``Queue``."""

    @functools.wraps(method)
    async def call(self: AsyncQueue, /, *args: P.args, **kwargs: P.kwargs) -> Made:
        def done() -> Made:
            with Queue(self._conninfo) as own:
                return method(own, *args, **kwargs)

        return await asyncio.to_thread(done)

    return call


class AsyncQueue:
    """A queue in a database, with the methods, arguments and errors of ``Queue``.

    ``timeout_s`` limits each question to the database.
    """

    def __init__(self, conninfo: str | None = None, *, timeout_s: float = 60.0) -> None:
        self._conninfo = default_conninfo(conninfo)
        self._session = AsyncSession(AsyncDatabase(self._conninfo, timeout_s=timeout_s))

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls in flight fail."""
        await self._session.database.close()

    submit = _in_thread(Queue.submit)
    retrieve = _in_thread(Queue.retrieve)
    query = _awaited(Queue.query)
    xquery = _iterated(Queue.xquery)
    history = _awaited(Queue.history)
    xhistory = _iterated(Queue.xhistory)
    jobEpochHistory = _awaited(Queue.jobEpochHistory)
    runs = _awaited(Queue.runs)
    act = _awaited(Queue.act)
    edit = _awaited(Queue.edit)
    reschedule = _awaited(Queue.reschedule)
    events = _iterated(Queue.events)
    cursor = _awaited(Queue.cursor)
    slots = _awaited(Queue.slots)
    hosts = _awaited(Queue.hosts)
    queues = _awaited(Queue.queues)
    submitters = _awaited(Queue.submitters)
    set_factor = _awaited(Queue.set_factor)
    limits = _awaited(Queue.limits)
    groups = _awaited(Queue.groups)
    set_group = _awaited(Queue.set_group)
    remove_group = _awaited(Queue.remove_group)
    credentials = _awaited(Queue.credentials)
    add_credential = _in_thread(Queue.add_credential)
    delete_credential = _awaited(Queue.delete_credential)

    async def _ask(self, make: Callable[[Any], Made], operation: str, /, **arguments: object) -> Made:
        steps = operations.STEPS[operation](self._session.memory, **arguments)
        return make(await self._session.run(steps))

    async def _each(
        self, make: Callable[[Any], Made | None], operation: str, /, **arguments: object
    ) -> AsyncIterator[Made]:
        async for item in self._session.each(
            operations.STREAMS[operation](self._session.memory, **arguments)
        ):
            if (made := make(item)) is not None:
                yield made

    async def _list(
        self, make: Callable[[Any], Made | None], operation: str, /, **arguments: object
    ) -> list[Made]:
        return [made async for made in self._each(make, operation, **arguments)]
