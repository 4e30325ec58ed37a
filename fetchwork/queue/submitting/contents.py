"""Uploads input files to the database, each distinct content once.

A file is read twice: for its hash, and for the upload. Each chunk is compared with the first reading. So a
change of the file in between is noticed, and no content is stored under another content's hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias, TypeVar

from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.call import Call
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.errors import SubmitError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting.inputs import InputFile, Needed
from fetchwork.sandbox import objects

__all__ = ["Content", "Progress", "check_room", "described", "largest", "measured", "read_chunks", "send"]

T = TypeVar("T")
#: called with the bytes sent and the total
Progress: TypeAlias = Callable[[int, int], None]
#: small contents travel together: the most bytes and the most contents in one call
_TOGETHER_BYTES = 4 * CHUNK_BYTES
_TOGETHER = 500
#: chunks of one content that are committed together
_COMMITTED = 8
#: rows of job_file in one call
_ROWS = 5000
#: the most attempts for a content whose stored chunks do not add up to it
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content when it was read."""

    path: str
    size: int
    #: in hex
    sha256: str
    #: digests of its chunks
    chunks: tuple[bytes, ...]


class Runs(Protocol):
    """The methods that run calls: a Database's."""

    def run(self, call: Call[T]) -> T: ...

    def carry(self, call: Call[T]) -> T: ...

    def transaction(self) -> AbstractContextManager[None]: ...


class Source(Protocol):
    """The source of a file's chunks."""

    def __call__(self, path: str, numbers: Sequence[int]) -> Iterator[bytes]: ...


def measured(paths: Iterable[str]) -> dict[str, Content]:
    """Read files for their hashes; raises SubmitError if a file can't be read."""
    return {path: _measure(path) for path in sorted(paths)}


def _measure(path: str) -> Content:
    whole = hashlib.sha256()
    chunks: list[bytes] = []
    size = 0
    try:
        with _opened(path) as file:
            while data := file.read(CHUNK_BYTES):
                whole.update(data)
                # after the first chunk the digest of the whole equals the chunk's
                chunks.append(whole.digest() if not chunks else _digest(data))
                size += len(data)
    except OSError as error:
        raise SubmitError(f"cannot open input '{path}': {error.strerror}") from None
    return Content(path, size, whole.hexdigest(), tuple(chunks))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _opened(path: str) -> BinaryIO:
    # a pipe that has replaced the file must not block the submission
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: PTH123


def read_chunks(path: str, numbers: Sequence[int]) -> Iterator[bytes]:
    """Chunks of a file on this machine."""
    try:
        with _opened(path) as file:
            for n in numbers:
                file.seek(n * CHUNK_BYTES)
                yield file.read(CHUNK_BYTES)
    except OSError as error:
        raise SubmitError(f"cannot open input '{path}': {error.strerror}") from None


def send(
    database: Runs,
    owner: str,
    contents: Mapping[str, Content],
    job_bytes: int,
    *,
    source: Source = read_chunks,
    progress: Progress | None = None,
) -> None:
    """Store the contents that the owner lacks. Call it outside of a transaction: sent contents stay sent.

    Raises DatabaseRefused before a byte is sent if there is no room for them, SubmitError if a file changes
    while it is sent.
    """
    lacking = check_room(database, owner, contents, job_bytes)
    sending = _Sending(database, owner, source, sum(one.size for one in lacking), progress)
    sending.whole([one for one in lacking if one.size <= CHUNK_BYTES])
    for one in lacking:
        if one.size > CHUNK_BYTES:
            sending.in_chunks(one)


def check_room(database: Runs, owner: str, contents: Mapping[str, Content], job_bytes: int) -> list[Content]:
    """The contents that the owner lacks; raises DatabaseRefused if there is no room for them.

    ``job_bytes`` are the bytes of the job with the most (``largest``).
    """
    unique = list({(one.sha256, one.size): one for one in contents.values()}.values())
    if not unique:
        return []
    numbers = database.run(
        file_calls.lacking_contents(
            owner=owner,
            sha256s=[one.sha256 for one in unique],
            sizes=[one.size for one in unique],
            job_bytes=job_bytes,
        )
    )
    return [unique[n - 1] for n in numbers]


def largest(needs: Needed, contents: Mapping[str, Content]) -> int:
    """The bytes of the files of the job with the most."""

    def bytes_of(files: Sequence[InputFile]) -> int:
        return sum(contents[one.path].size for one in files if one.path is not None and one.path in contents)

    return bytes_of(needs.common) + max(map(bytes_of, needs.own.values()), default=0)


def described(needs: Needed, contents: Mapping[str, Content]) -> Iterator[list[Json]]:
    """The files of jobs as ``add_job_files`` takes them, in lists of limited length."""
    rows: list[Json] = []
    every: list[tuple[int | None, Sequence[InputFile]]] = [(None, needs.common), *needs.own.items()]
    for proc, files in every:
        for one in files:
            row: Json = {"name": one.name, "mode": one.mode}
            if proc is not None:
                row["proc"] = proc
            if one.url is not None:
                row["url"] = one.url
            if one.path is not None:
                row["path"] = one.path
                if one.path in contents and not one.name.endswith("/"):
                    content = contents[one.path]
                    row |= {"size": content.size, "sha256": content.sha256}
            rows.append(row)
            if len(rows) >= _ROWS:
                yield rows
                rows = []
    if rows:
        yield rows


class _Sending:
    def __init__(
        self, database: Runs, owner: str, source: Source, total: int, progress: Progress | None
    ) -> None:
        self._database = database
        self._owner = owner
        self._source = source
        self._total = total
        self._progress = progress
        self._sent = 0

    def whole(self, contents: Sequence[Content]) -> None:
        """Send contents of one chunk, several in a call, while the next are being read."""
        with contextlib.closing(ahead(self._together(contents))) as groups:
            for datas in groups:
                self._database.carry(file_calls.put_whole_contents(owner=self._owner, datas=datas))
                self._tell(sum(map(len, datas)))

    def _together(self, contents: Sequence[Content]) -> Iterator[list[bytes]]:
        together: list[bytes] = []
        size = 0
        for one in contents:
            data = b"".join(self._compared(one, range(len(one.chunks))))
            if together and (size + len(data) > _TOGETHER_BYTES or len(together) >= _TOGETHER):
                yield together
                together, size = [], 0
            together.append(data)
            size += len(data)
        if together:
            yield together

    def in_chunks(self, content: Content) -> None:
        """Send the missing chunks of a content."""
        for _ in range(_TRIES):
            begun = self._database.run(
                file_calls.begin_content(owner=self._owner, sha256=content.sha256, size=content.size)
            )
            # only a run may be over
            assert begun is not None
            if begun.part_bytes is not None and not begun.complete:
                self._in_parts(content, begun)
                if self._database.run(file_calls.end_content(content_id=begun.content_id)):
                    return
                self._sent -= content.size
                continue
            there = set(begun.chunks)
            numbers = [n for n in range(len(content.chunks)) if n not in there]
            if begun.complete:
                numbers = []
            self._tell(content.size - _bytes(content, numbers))
            with contextlib.closing(ahead(self._source(content.path, numbers))) as chunks:
                # each commit waits for the server's disk
                for first in range(0, len(numbers), _COMMITTED):
                    together = numbers[first : first + _COMMITTED]
                    with self._database.transaction():
                        for n, data in zip(together, chunks, strict=False):
                            self._put_chunk(begun.content_id, content, n, data)
                    self._tell(_bytes(content, together))
            if self._database.run(file_calls.end_content(content_id=begun.content_id)):
                return
            self._sent -= content.size
        raise SubmitError(f"input '{content.path}' can't be stored: the stored chunks do not match the file")

    def _in_parts(self, content: Content, begun: file_calls.BegunContent) -> None:
        """Put the missing parts of a content into its bucket."""
        assert begun.part_bytes is not None
        each = begun.part_bytes // CHUNK_BYTES
        for part in range(-(-content.size // begun.part_bytes)):
            numbers = range(part * each, min((part + 1) * each, len(content.chunks)))
            if part not in begun.chunks:
                data = b"".join(self._compared(content, numbers))
                url = self._database.run(
                    file_calls.content_url(method="PUT", content_id=begun.content_id, n=part)
                )
                assert url is not None
                objects.put(url, data)
                empty = hashlib.sha256().hexdigest()
                self._database.run(
                    file_calls.put_chunk(content_id=begun.content_id, n=part, data=b"", sha256=empty)
                )
            self._tell(_bytes(content, numbers))

    def _put_chunk(self, content_id: int, content: Content, n: int, data: bytes) -> None:
        digest = content.chunks[n].hex()
        call = file_calls.put_chunk(content_id=content_id, n=n, data=data, sha256=digest)
        try:
            self._database.carry(call)
        except SubmitError:
            # the server raises it for data that does not fit its hash
            raise SubmitError(f"input '{content.path}' changed while it was sent") from None

    def _compared(self, content: Content, numbers: Sequence[int]) -> Iterator[bytes]:
        for n, data in zip(numbers, self._source(content.path, numbers), strict=True):
            if _digest(data) != content.chunks[n]:
                raise SubmitError(f"input '{content.path}' changed while it was sent")
            yield data

    def _tell(self, size: int) -> None:
        self._sent += size
        if self._progress is not None:
            self._progress(self._sent, self._total)


def _bytes(content: Content, numbers: Sequence[int]) -> int:
    return sum(min(CHUNK_BYTES, content.size - n * CHUNK_BYTES) for n in numbers)


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """The items of an iterator; a thread makes the next one while the caller uses the last."""
    with ThreadPoolExecutor(1) as thread:
        pending = thread.submit(_next_of, items)
        while item := pending.result():
            pending = thread.submit(_next_of, items)
            yield item[0]


def _next_of(items: Iterator[T]) -> tuple[T] | None:
    for item in items:
        return (item,)
    return None
