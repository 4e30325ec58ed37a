"""``AsyncQueue``: ``Queue`` for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from fetchwork.classad.bindings import JobAction
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.pool import AsyncDatabase
from fetchwork.queue import changing, query, reading
from fetchwork.queue.ask import Stream
from fetchwork.queue.events import JobEvent
from fetchwork.queue.reader import Reader
from fetchwork.queue.session import AsyncSession, default_conninfo
from fetchwork.queue.synchronous import Queue
from fetchwork.queue.views import (
    CREDENTIALS,
    HISTORY,
    HOSTS,
    LIMITS,
    QUEUES,
    RUNS,
    SLOTS,
    SUBMITTERS,
    Json,
    View,
)

if TYPE_CHECKING:
    from datetime import datetime

    from fetchwork.credentials.secret import Renewal
    from fetchwork.queue.contents import Progress
    from fetchwork.queue.selecting import ConstraintSpec, JobSpec
    from fetchwork.queue.submission import Description, SubmitResult

Made = TypeVar("Made")


class AsyncQueue:
    """A queue in a database; methods, arguments and errors are those of ``Queue``.

    ``timeout_s`` bounds each question to the database.
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

    # jobs

    async def submit(
        self,
        description: Description,
        count: int = 0,
        spool: bool = False,
        itemdata: Iterable[str | Mapping[str, str]] | None = None,
        queue: str | None = None,
        *,
        owner: str | None = None,
        progress: Progress | None = None,
    ) -> SubmitResult:
        """As ``Queue.submit``; in a thread, because HTCondor's reader of descriptions is not asynchronous."""
        return await self._in_thread(
            lambda own: own.submit(description, count, spool, itemdata, queue, owner=owner, progress=progress)
        )

    async def retrieve(self, job_spec: JobSpec | None = None, *, progress: Progress | None = None) -> int:
        """As ``Queue.retrieve``; in a thread, because it writes files."""
        return await self._in_thread(lambda own: own.retrieve(job_spec, progress=progress))

    @overload
    async def query(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        callback: None = None,
        limit: int = -1,
        opts: int = 0,
    ) -> list[ClassAd]: ...

    @overload
    async def query(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        *,
        callback: Callable[[ClassAd], Made | None],
        limit: int = -1,
        opts: int = 0,
    ) -> list[Made]: ...

    async def query(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Made | None] | None = None,
        limit: int = -1,
        opts: int = 0,
    ) -> list[ClassAd] | list[Made]:
        """As ``Queue.query``."""
        ads = [ad async for ad in self.xquery(constraint, projection, limit, opts)]
        if callback is None:
            return ads
        return [made for ad in ads if (made := callback(ad)) is not None]

    def xquery(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        limit: int = -1,
        opts: int = 0,
    ) -> AsyncIterator[ClassAd]:
        """As ``Queue.xquery``."""
        memory = self._session.memory
        return self._ads(query.query(constraint, memory, projection=projection, limit=limit, opts=opts))

    async def history(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> list[ClassAd]:
        """As ``Queue.history``."""
        return [ad async for ad in self.xhistory(constraint, projection, match, since)]

    def xhistory(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> AsyncIterator[ClassAd]:
        """As ``Queue.xhistory``."""
        return self._read(HISTORY, constraint, projection, match, since)

    async def jobEpochHistory(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
        ad_type: str | Sequence[str] | None = None,
    ) -> list[ClassAd]:
        """As ``Queue.jobEpochHistory``."""
        return await self.runs(constraint, projection, match, since) if reading.are_epochs(ad_type) else []

    async def runs(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> list[ClassAd]:
        """As ``Queue.runs``."""
        return [ad async for ad in self._read(RUNS, constraint, projection, match, since)]

    async def act(self, action: JobAction, job_spec: JobSpec, reason: str | None = None) -> ClassAd:
        """As ``Queue.act``."""
        counts = await self._session.run(changing.act(action, job_spec, self._session.memory, reason))
        return from_json(counts)

    async def edit(self, job_spec: JobSpec, attr: str, value: object, flags: int = 0) -> int:
        """As ``Queue.edit``."""
        changes = {attr: changing.value_of(value)}
        return await self._session.run(changing.edit(job_spec, changes, self._session.memory))

    async def reschedule(self) -> None:
        """As ``Queue.reschedule``."""
        await self._session.run(changing.reschedule())

    # events

    def events(
        self,
        after: str | None = None,
        job: JobSpec | None = None,
        stop_after: float | None = None,
    ) -> AsyncIterator[JobEvent]:
        """As ``Queue.events``."""
        return self._session.each(Reader(after=after, job=job).events(stop_after))

    async def cursor(self) -> str:
        """As ``Queue.cursor``."""
        return await self._session.run(Reader.now())

    # the pool

    async def slots(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """As ``Queue.slots``."""
        return [ad async for ad in self._read(SLOTS, constraint, projection)]

    async def hosts(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """As ``Queue.hosts``."""
        return [ad async for ad in self._read(HOSTS, constraint, projection)]

    async def queues(
        self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()
    ) -> list[ClassAd]:
        """As ``Queue.queues``."""
        return [ad async for ad in self._read(QUEUES, constraint, projection)]

    async def submitters(
        self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()
    ) -> list[ClassAd]:
        """As ``Queue.submitters``."""
        return [ad async for ad in self._read(SUBMITTERS, constraint, projection)]

    async def limits(
        self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()
    ) -> list[ClassAd]:
        """As ``Queue.limits``."""
        return [ad async for ad in self._read(LIMITS, constraint, projection)]

    # credentials

    async def credentials(
        self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()
    ) -> list[ClassAd]:
        """As ``Queue.credentials``."""
        return [ad async for ad in self._read(CREDENTIALS, constraint, projection)]

    async def add_credential(
        self,
        service: str,
        content: bytes,
        *,
        handle: str = "",
        owner: str | None = None,
        renewal: Renewal | None = None,
        permissions: str | None = None,
        resource: str | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        """As ``Queue.add_credential``; in a thread, because it asks two questions."""
        return await self._in_thread(
            lambda own: own.add_credential(
                service,
                content,
                handle=handle,
                owner=owner,
                renewal=renewal,
                permissions=permissions,
                resource=resource,
                expires_at=expires_at,
            )
        )

    async def delete_credential(self, service: str, *, handle: str = "", owner: str | None = None) -> bool:
        """As ``Queue.delete_credential``; in a thread."""
        return await self._in_thread(lambda own: own.delete_credential(service, handle=handle, owner=owner))

    async def _in_thread(self, do: Callable[[Queue], Made]) -> Made:
        """What ``do`` makes of a ``Queue`` of its own, in a thread."""

        def done() -> Made:
            with Queue(self._conninfo) as own:
                return do(own)

        return await asyncio.to_thread(done)

    def _read(
        self,
        view: View,
        constraint: ConstraintSpec,
        projection: Sequence[str],
        match: int = -1,
        since: JobSpec | None = None,
    ) -> AsyncIterator[ClassAd]:
        limit = match if match > 0 else -1
        memory = self._session.memory
        return self._ads(
            reading.ads(view, constraint, memory, projection=projection, limit=limit, since=since)
        )

    async def _ads(self, stream: Stream[Json]) -> AsyncIterator[ClassAd]:
        async for ad in self._session.each(stream):
            yield from_json(ad)


__all__ = ["AsyncQueue"]
