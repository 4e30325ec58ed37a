"""``AsyncQueue``: ``Queue`` for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from fetchwork.classad.bindings import QueryOpts
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.pool import AsyncDatabase
from fetchwork.queue import reading as steps
from fetchwork.queue import submission
from fetchwork.queue.events import JobEvent
from fetchwork.queue.reader import Reader
from fetchwork.queue.synchronous import Queue, default_conninfo
from fetchwork.queue.views import HISTORY, RUNS

Result = TypeVar("Result")
ClassAd = ClassAd


class AsyncQueue:
    """A queue in a database; methods, arguments and errors are those of ``Queue``."""

    def __init__(self, conninfo: str | None = None, *, timeout_s: float = 60.0) -> None:
        self._conninfo = default_conninfo(conninfo)
        self._database = AsyncDatabase(self._conninfo, timeout_s=timeout_s)
        self._memory = steps.Memory()

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls in flight fail."""
        await self._database.close()

    async def submit(
        self,
        description: Any,
        count: int = 0,
        *,
        itemdata: Iterable[str | Mapping[str, str]] | None = None,
        owner: str | None = None,
    ) -> submission.SubmitResult:
        """As ``Queue.submit``; in a thread, because HTCondor's reader of descriptions is not asynchronous."""

        def put() -> submission.SubmitResult:
            with Queue(self._conninfo) as queue:
                return queue.submit(description, count, itemdata=itemdata, owner=owner)

        return await asyncio.to_thread(put)

    async def query(
        self,
        constraint: Any = "true",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Any] | None = None,
        limit: int = -1,
        opts: int = QueryOpts.Default,
    ) -> list[Any]:
        """As ``Queue.query``."""
        ads = [ad async for ad in self.xquery(constraint, projection, limit, opts)]
        if callback is None:
            return ads
        return [made for ad in ads if (made := callback(ad)) is not None]

    async def xquery(
        self,
        constraint: Any = "true",
        projection: Sequence[str] = (),
        limit: int = -1,
        opts: int = QueryOpts.Default,
    ) -> AsyncIterator[ClassAd]:
        """As ``Queue.xquery``."""
        found = steps.query(constraint, self._memory, projection=projection, limit=limit, opts=opts)
        async for ad in self._each(found):
            yield from_json(ad)

    async def history(
        self, constraint: Any = None, projection: Sequence[str] = (), match: int = -1, since: Any = None
    ) -> AsyncIterator[ClassAd]:
        """As ``Queue.history``."""
        found = steps.ads(HISTORY, constraint, self._memory, projection=projection, limit=match, since=since)
        async for ad in self._each(found):
            yield from_json(ad)

    async def jobEpochHistory(
        self, constraint: Any = None, projection: Sequence[str] = (), match: int = -1, since: Any = None
    ) -> AsyncIterator[ClassAd]:
        """As ``Queue.jobEpochHistory``."""
        found = steps.ads(RUNS, constraint, self._memory, projection=projection, limit=match, since=since)
        async for ad in self._each(found):
            yield from_json(ad)

    epochs = jobEpochHistory

    async def act(self, action: Any, job_spec: Any, reason: str | None = None) -> ClassAd:
        """As ``Queue.act``."""
        return from_json(await self._run(steps.act(action, job_spec, self._memory, reason)))

    async def edit(self, job_spec: Any, attr: str, value: Any) -> int:
        """As ``Queue.edit``."""
        return await self._run(steps.edit(job_spec, {attr: steps.value_of(value)}, self._memory))

    async def reschedule(self) -> None:
        """As ``Queue.reschedule``."""
        await self._database.query("SELECT pg_notify('fetchwork_work', '')")

    async def events(
        self, after: str | None = None, job: Any = None, stop_after: float | None = None
    ) -> AsyncIterator[JobEvent]:
        """As ``Queue.events``."""
        async for event in self._each(Reader(after=after, job=job).events(stop_after)):
            yield event

    async def cursor(self) -> str:
        """As ``Queue.cursor``."""
        return await self._run(Reader.now())

    async def _each(self, found: steps.Steps[Any]) -> AsyncIterator[Any]:
        reply: Any = None
        while True:
            try:
                step = found.send(reply)
            except StopIteration:
                return
            reply = None
            if isinstance(step, steps.Ask):
                reply = await self._database.query(step.sql, step.params)
            elif isinstance(step, steps.Pause):
                await asyncio.sleep(step.seconds)
            else:
                for item in step.items:
                    yield item

    async def _run(self, found: steps.Steps[Result]) -> Result:
        reply: Any = None
        while True:
            try:
                step = found.send(reply)
            except StopIteration as end:
                result: Result = end.value
                return result
            reply = await self._database.query(step.sql, step.params) if isinstance(step, steps.Ask) else None


__all__ = ["AsyncQueue"]
