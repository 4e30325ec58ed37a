"""Contents of input files on their way to sandboxes, and a cache of them that is separate for each owner.

A content is downloaded from the database once for all hooks that want it at the same time, into a file of the
cache whose beginning is handed out while the rest comes. It is whole if its hash is right; then it stays
until the cache is full and other contents were used later. The database decides who gets it: the plan of a
run names contents of its job's owner, and a content is looked up among those of that owner only. A content
larger than half the cache is passed through.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fetchwork.db.calls import files
from fetchwork.db.calls.files import PART_BYTES
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, FetchworkError, NotFound
from fetchwork.log import event
from fetchwork.sandbox import objects

log = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024
#: seconds for one chunk
CHUNK_S = 30.0
_PARTIAL = ".partial"


@dataclass(frozen=True, slots=True)
class Reader:
    """A live run that may read contents: its database, number and token."""

    database: AsyncDatabase
    run_id: int
    token: str
    #: whether the content's bytes are in a bucket
    in_bucket: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """A content of one owner, by hash and size."""

    #: database and owner
    owner: tuple[str, str]
    sha256: str
    size: int
    in_bucket: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        """The path below the cache's directory."""
        whose = hashlib.blake2b("\0".join(self.owner).encode(), digest_size=16).hexdigest()
        return f"{whose}/{self.sha256}-{self.size}"

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.size // CHUNK_BYTES)


@dataclass(slots=True, eq=False)
class _Coming:
    """A content that is being downloaded into the cache."""

    fd: int
    #: run that wants the content and could go on reading it -> its content_id
    readers: dict[Reader, int] = field(default_factory=dict)
    there: int = 0
    problem: FetchworkError | None = None
    progress: asyncio.Event = field(default_factory=asyncio.Event)
    #: number of calls that use the descriptor
    users: int = 0
    #: the cache can't take the content: its chunks are passed through
    uncached: bool = False
    task: asyncio.Task[None] | None = None


class Contents:
    """The cache in ``directory`` of at most ``limit`` bytes."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._kept: OrderedDict[str, int] = OrderedDict()
        self._size = 0
        self._coming: dict[Content, _Coming] = {}

    def open(self) -> None:
        """Make the directory, delete unfinished downloads, and read the list of contents."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # an existing directory may belong to another account
        if self._directory.stat().st_uid == os.geteuid():
            self._directory.chmod(0o700)
        contents: list[tuple[float, str, int]] = []
        for path in self._directory.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.suffix == _PARTIAL or not path.name.endswith(f"-{status.st_size}"):
                    path.unlink()
                else:
                    contents.append((status.st_atime, f"{path.parent.name}/{path.name}", status.st_size))
        for _, name, size in sorted(contents):
            self._keep(name, size)

    async def close(self) -> None:
        """Stop the downloads."""
        tasks = [coming.task for coming in self._coming.values() if coming.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def chunk(
        self, content: Content, content_id: int, reader: Reader, number: int, timeout_s: float
    ) -> bytes:
        """Return a chunk of a content, ``content_id`` in the reader's job; raises FetchworkError."""
        if not 0 <= number < content.chunks:
            raise NotFound(f"content {content_id} has no chunk {number}")
        coming = self._coming.get(content)
        if coming is None and content.name in self._kept:
            with contextlib.suppress(OSError):
                data = await asyncio.to_thread(_read, self._directory / content.name, number)
                self._kept.move_to_end(content.name)
                return data
            self._forget(content.name)
        if coming is None and content.size <= self._limit // 2:
            coming = self._begin(content)
        if coming is not None and not coming.uncached:
            coming.users += 1
            try:
                came = await self._await_chunk(content, coming, content_id, reader, number, timeout_s)
            finally:
                coming.users -= 1
            if came is not None:
                return came
        passed = await _ask(reader, content, content_id, number, timeout_s)
        if passed is None:
            raise NotFound(f"content {content_id} is not there any more")
        return passed

    async def _await_chunk(
        self,
        content: Content,
        coming: _Coming,
        content_id: int,
        reader: Reader,
        number: int,
        timeout_s: float,
    ) -> bytes | None:
        """Return a chunk as soon as it has come; None if the cache can't take the content."""
        coming.readers[reader] = content_id
        if coming.task is None or (coming.task.done() and coming.problem is not None):
            coming.problem = None
            coming.task = asyncio.ensure_future(self._fetch(content, coming))
        try:
            async with asyncio.timeout(timeout_s):
                while coming.there <= number:
                    if coming.uncached:
                        return None
                    if coming.problem is not None:
                        raise coming.problem
                    coming.progress.clear()
                    await coming.progress.wait()
        except TimeoutError:
            raise DatabaseUnavailable("the file does not come: the database is slow") from None
        return await asyncio.to_thread(os.pread, coming.fd, CHUNK_BYTES, number * CHUNK_BYTES)

    # -- into the cache

    def _begin(self, content: Content) -> _Coming | None:
        path = self._directory / (content.name + _PARTIAL)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            _log_not_written(content, error)
            return None
        coming = self._coming[content] = _Coming(fd)
        return coming

    async def _fetch(self, content: Content, coming: _Coming) -> None:
        """Read the whole content; if the reading run ends, another waiting run takes over."""
        digest = hashlib.sha256()
        coming.there = 0
        try:
            for number in range(content.chunks):
                data = await self._read_on(content, coming, number)
                await asyncio.to_thread(_write, coming.fd, data, number, digest)
                # the last chunk is handed out only after the hash has been checked
                coming.there = min(number + 1, content.chunks - 1)
                coming.progress.set()
            if digest.hexdigest() != content.sha256:
                raise NotFound("the content in the database does not match its hash")
            coming.there = content.chunks
            coming.progress.set()
            # a name promises the whole content, after a power cut too; no reader waits for this
            await asyncio.to_thread(os.fsync, coming.fd)
            path = self._directory / content.name
            path.with_name(path.name + _PARTIAL).rename(path)
            self._keep(content.name, content.size)
        except FetchworkError as error:
            coming.problem = error
        except OSError as error:
            _log_not_written(content, error)
            coming.uncached = True
        finally:
            coming.progress.set()
            asyncio.get_running_loop().call_later(CHUNK_S, self._end, content, coming)

    @staticmethod
    async def _read_on(content: Content, coming: _Coming, number: int) -> bytes:
        while coming.readers:
            reader, content_id = next(iter(coming.readers.items()))
            data = await _ask(reader, content, content_id, number, CHUNK_S)
            if data is not None:
                return data
            # the reader's run is over
            del coming.readers[reader]
        raise NotFound("the content is not there any more, or no run wants it")

    def _end(self, content: Content, coming: _Coming) -> None:
        """Close the file, some time after the last possible request for its beginning."""
        if coming.users or (coming.task is not None and not coming.task.done()):
            asyncio.get_running_loop().call_later(CHUNK_S, self._end, content, coming)
            return
        if self._coming.get(content) is coming:
            del self._coming[content]
            os.close(coming.fd)
            if coming.problem is not None or coming.uncached:
                with contextlib.suppress(OSError):
                    (self._directory / (content.name + _PARTIAL)).unlink()

    def _keep(self, name: str, size: int) -> None:
        self._kept[name] = size
        self._size += size
        while self._size > self._limit and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _forget(self, name: str) -> None:
        self._size -= self._kept.pop(name, 0)
        with contextlib.suppress(OSError):
            (self._directory / name).unlink()

    @property
    def names(self) -> Iterable[str]:
        """The paths of the cached contents below the cache's directory."""
        return list(self._kept)


def _log_not_written(content: Content, error: OSError) -> None:
    """Log that the cache's disk did not take a content; its runs read it from the database."""
    problem = error.strerror
    event(log, logging.WARNING, "cache_not_written", person="all", problem=problem, bytes=content.size)


async def _ask(
    reader: Reader, content: Content, content_id: int, number: int, timeout_s: float
) -> bytes | None:
    if not reader.in_bucket:
        return await reader.database.carry(
            files.read_chunk(run_id=reader.run_id, token=reader.token, content_id=content_id, n=number),
            timeout_s=timeout_s,
        )
    part, at = divmod(number * CHUNK_BYTES, PART_BYTES)
    url = await reader.database.run(
        files.content_url(
            method="GET", content_id=content_id, n=part, run_id=reader.run_id, token=reader.token
        ),
        timeout_s=timeout_s,
    )
    if url is None:
        return None
    return await objects.aside(objects.get, url, at, min(CHUNK_BYTES, content.size - number * CHUNK_BYTES))


def _read(path: Path, number: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, CHUNK_BYTES, number * CHUNK_BYTES)
    finally:
        os.close(fd)


def _write(fd: int, data: bytes, number: int, digest: hashlib._Hash) -> None:
    digest.update(data)
    view, at = memoryview(data), number * CHUNK_BYTES
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
