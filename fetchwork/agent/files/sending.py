"""Uploads a job's staged outputs to the database.

Small files travel together, larger ones in chunks; an upload that was cut goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias

from fetchwork.agent.files.contents import CHUNK_BYTES
from fetchwork.agent.files.parked import OutputSpool, Parked, ParkedFile
from fetchwork.db.calls import files
from fetchwork.db.calls.call import JsonObject
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.runad import RunKey
from fetchwork.sandbox import objects
from fetchwork.sandbox.failure import FileFailure

#: most small files in one call
MOST_TOGETHER = 500
#: seconds for a call
CALL_S = 30.0


class RunOver(Exception):
    """The run has ended, so its outputs are not wanted."""


#: a context in which an upload waits for a bucket
Aside: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


async def send(
    database: AsyncDatabase,
    key: RunKey,
    spool: OutputSpool,
    parked: Parked,
    on_progress: Callable[[int], None],
    aside: Aside = nullcontext,
) -> list[JsonObject]:
    """Upload a staged directory and return its list of files. ``on_progress`` gets the bytes of each file.

    Raises RunOver, OSError for a file that can't be read, FileFailure for a file that changes meanwhile, and
    the errors of the database.
    """
    manifest: list[JsonObject] = []
    small: list[bytes] = []
    for file in parked.files:
        entry, data = await _entry(database, key, spool, parked, file, aside)
        manifest.append(entry)
        if data is not None:
            if len(small) == MOST_TOGETHER or sum(map(len, small)) + len(data) > CHUNK_BYTES:
                await _put(database, key, small)
                small = []
            small.append(data)
        if "sha256" in entry:
            on_progress(entry["size"])
    if small:
        await _put(database, key, small)
    return manifest


async def _entry(
    database: AsyncDatabase,
    key: RunKey,
    spool: OutputSpool,
    parked: Parked,
    file: ParkedFile,
    aside: Aside,
) -> tuple[JsonObject, bytes | None]:
    """Return a file's entry of the list, and its content if that is not uploaded yet."""
    if file.directory:
        return {"name": f"{file.name}/", "mode": file.mode}, None
    if file.number is None:
        return {"name": file.name, "mode": file.mode, "size": file.size, "url": file.url or ""}, None
    fd = await asyncio.to_thread(spool.open, parked, file.number)
    try:
        small: bytes | None = None
        if file.size < CHUNK_BYTES:
            # read a whole chunk: the file may have grown since it was staged
            small = await asyncio.to_thread(os.pread, fd, CHUNK_BYTES, 0)
        if small is not None and len(small) < CHUNK_BYTES:
            sha256, size = hashlib.sha256(small).hexdigest(), len(small)
        else:
            small = None
            sha256, size = await _in_chunks(database, key, fd, spool.most_bytes, file.name, aside)
    finally:
        os.close(fd)
    return {"name": file.name, "mode": file.mode, "size": size, "sha256": sha256}, small


async def _put(database: AsyncDatabase, key: RunKey, datas: list[bytes]) -> None:
    """Upload whole contents of less than a chunk each."""
    wanted = await database.carry(
        files.put_whole_contents(owner=None, datas=datas, run_id=key.run_id, token=key.token),
        timeout_s=CALL_S,
    )
    if not wanted:
        raise RunOver


async def _in_chunks(
    database: AsyncDatabase, key: RunKey, fd: int, most: int, name: str, aside: Aside
) -> tuple[str, int]:
    """Upload the missing chunks of a file; return its hash and size.

    A process that the job left behind may go on writing to the file. Only the bytes of the first reading are
    uploaded: a cut upload is resumed by the content's hash, so its chunks must be right.
    """
    sha256, size, of_chunks = await asyncio.to_thread(_hash, fd, most)
    begun = await database.run(
        files.begin_content(owner=None, sha256=sha256, size=size, run_id=key.run_id, token=key.token),
        timeout_s=CALL_S,
    )
    if begun is None:
        raise RunOver
    there = frozenset(begun.chunks)
    if begun.part_bytes is not None:
        for part in range(-(-size // begun.part_bytes)):
            if part not in there:
                at = part * begun.part_bytes
                length = min(begun.part_bytes, size - at)
                expected = of_chunks[at // CHUNK_BYTES :][: begun.part_bytes // CHUNK_BYTES]
                # a part is large and its URL expires within minutes, so neither is fetched before its turn
                async with aside():
                    data = await asyncio.to_thread(_read_part, fd, at, length, expected, name)
                    await _put_part(database, key, begun.content_id, part, data)
        return sha256, size
    for number, of_chunk in enumerate(of_chunks):
        if number in there:
            continue
        at = number * CHUNK_BYTES
        # appended bytes do not belong to the content
        length = min(CHUNK_BYTES, size - at)
        data = await asyncio.to_thread(_read_part, fd, at, length, [of_chunk], name)
        wanted = await database.carry(
            files.put_chunk(
                run_id=key.run_id, token=key.token, content_id=begun.content_id, n=number, data=data
            ),
            timeout_s=CALL_S,
        )
        if not wanted:
            raise RunOver
    return sha256, size


async def _put_part(database: AsyncDatabase, key: RunKey, content_id: int, part: int, data: bytes) -> None:
    """Put a part of a content into its bucket."""
    url = await database.run(
        files.content_url(method="PUT", content_id=content_id, n=part, run_id=key.run_id, token=key.token),
        timeout_s=CALL_S,
    )
    if url is None:
        raise RunOver
    await objects.aside(objects.put, url, data)
    wanted = await database.run(
        files.put_chunk(run_id=key.run_id, token=key.token, content_id=content_id, n=part, data=b""),
        timeout_s=CALL_S,
    )
    if not wanted:
        raise RunOver


def _read_part(fd: int, at: int, size: int, of_chunks: Sequence[bytes], name: str) -> bytes:
    """Read so many bytes of a file; raises FileFailure if its chunks do not have these hashes."""
    data = _read_chunk(fd, at, size)
    seen = [hashlib.sha256(data[i : i + CHUNK_BYTES]).digest() for i in range(0, len(data), CHUNK_BYTES)]
    if seen != list(of_chunks):
        raise FileFailure(errno.EBUSY, f"file '{name}' changed while it was sent")
    return data


def _hash(fd: int, most: int) -> tuple[str, int, list[bytes]]:
    """Return the hash of at most so many bytes of a file, their number, and the hashes of the chunks."""
    # a process may write to the file as fast as it is read
    digest, size, of_chunks = hashlib.sha256(), 0, []
    while size < most and (data := _read_chunk(fd, size, min(CHUNK_BYTES, most - size))):
        digest.update(data)
        of_chunks.append(hashlib.sha256(data).digest())
        size += len(data)
        if len(data) < CHUNK_BYTES:
            # the end was reached; bytes appended now do not belong to the content
            break
    return digest.hexdigest(), size, of_chunks


def _read_chunk(fd: int, at: int, most: int) -> bytes:
    """Read so many bytes of a file, fewer only at its end."""
    data = b""
    while len(data) < most and (more := os.pread(fd, most - len(data), at + len(data))):
        data += more
    return data
