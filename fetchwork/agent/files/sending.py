"""The bytes of what a job left, from the directory in which they are parked into the database.

Small files travel together, larger ones in chunks; a content that was begun goes on where it stopped.
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

#: small files that travel in one call
MOST_TOGETHER = 500
#: seconds for a call
CALL_S = 30.0


class RunOver(Exception):
    """The run has ended: nobody wants what it leaves."""


#: in which a bucket is waited for
Aside: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


async def send(
    database: AsyncDatabase,
    key: RunKey,
    spool: OutputSpool,
    parked: Parked,
    told: Callable[[int], None],
    aside: Aside = nullcontext,
) -> list[JsonObject]:
    """Bring what is parked into the database; the list of it. ``told`` gets the bytes of each file.

    Raises RunOver, OSError for a file that can't be read, FileFailure for one that changes meanwhile, and the
    errors of the database.
    """
    manifest: list[JsonObject] = []
    small: list[bytes] = []
    for one in parked.files:
        entry, data = await _entry(database, key, spool, parked, one, aside)
        manifest.append(entry)
        if data is not None:
            if len(small) == MOST_TOGETHER or sum(map(len, small)) + len(data) > CHUNK_BYTES:
                await _put(database, key, small)
                small = []
            small.append(data)
        if "sha256" in entry:
            told(entry["size"])
    if small:
        await _put(database, key, small)
    return manifest


async def _entry(
    database: AsyncDatabase,
    key: RunKey,
    spool: OutputSpool,
    parked: Parked,
    one: ParkedFile,
    aside: Aside,
) -> tuple[JsonObject, bytes | None]:
    """A file's entry of the list, and what is in it, if that is not in the database by then."""
    if one.directory:
        return {"name": f"{one.name}/", "mode": one.mode}, None
    if one.number is None:
        return {"name": one.name, "mode": one.mode, "size": one.size, "url": one.url or ""}, None
    fd = await asyncio.to_thread(spool.open, parked, one.number)
    try:
        small: bytes | None = None
        if one.size < CHUNK_BYTES:
            # a whole chunk: it may have grown since it was parked
            small = await asyncio.to_thread(os.pread, fd, CHUNK_BYTES, 0)
        if small is not None and len(small) < CHUNK_BYTES:
            sha256, size = hashlib.sha256(small).hexdigest(), len(small)
        else:
            small = None
            sha256, size = await _in_chunks(database, key, fd, spool.most_bytes, one.name, aside)
    finally:
        os.close(fd)
    return {"name": one.name, "mode": one.mode, "size": size, "sha256": sha256}, small


async def _put(database: AsyncDatabase, key: RunKey, datas: list[bytes]) -> None:
    """Store whole contents of less than a chunk each."""
    wanted = await database.carry(
        files.put_whole_outputs(run_id=key.run_id, token=key.token, datas=datas), timeout_s=CALL_S
    )
    if not wanted:
        raise RunOver


async def _in_chunks(
    database: AsyncDatabase, key: RunKey, fd: int, most: int, name: str, aside: Aside
) -> tuple[str, int]:
    """Store a file chunk by chunk, those that are not there yet; its hash and size.

    A process that the job has left may go on writing to it. Only what was read at first is stored: a content
    is begun again by its hash, and what is there of it then has to be right.
    """
    sha256, size, of_chunks = await asyncio.to_thread(_hash, fd, most)
    begun = await database.run(
        files.begin_output(run_id=key.run_id, token=key.token, sha256=sha256, size=size), timeout_s=CALL_S
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
                # a part is large, and its URL is good for some minutes: neither waits for its turn
                async with aside():
                    data = await asyncio.to_thread(_read_part, fd, at, length, expected, name)
                    await _put_part(database, key, begun.content_id, part, data)
        return sha256, size
    for number, of_chunk in enumerate(of_chunks):
        if number in there:
            continue
        at = number * CHUNK_BYTES
        # what was appended is not of the content
        length = min(CHUNK_BYTES, size - at)
        data = await asyncio.to_thread(_read_part, fd, at, length, [of_chunk], name)
        wanted = await database.carry(
            files.put_output_chunk(
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
        files.output_part_url(run_id=key.run_id, token=key.token, content_id=content_id, n=part),
        timeout_s=CALL_S,
    )
    if url is None:
        raise RunOver
    await objects.aside(objects.put, url, data)
    wanted = await database.run(
        files.put_output_chunk(run_id=key.run_id, token=key.token, content_id=content_id, n=part, data=b""),
        timeout_s=CALL_S,
    )
    if not wanted:
        raise RunOver


def _read_part(fd: int, at: int, size: int, of_chunks: Sequence[bytes], name: str) -> bytes:
    """So many bytes of a file, whose chunks have to have these hashes; raises FileFailure."""
    data = _read_chunk(fd, at, size)
    seen = [hashlib.sha256(data[i : i + CHUNK_BYTES]).digest() for i in range(0, len(data), CHUNK_BYTES)]
    if seen != list(of_chunks):
        raise FileFailure(errno.EBUSY, f"file '{name}' changed while it was sent")
    return data


def _hash(fd: int, most: int) -> tuple[str, int, list[bytes]]:
    """The hash of a file, of at most so many bytes, its size, and the hashes of its chunks."""
    # somebody may write to it as fast as it is read
    digest, size, of_chunks = hashlib.sha256(), 0, []
    while size < most and (data := _read_chunk(fd, size, min(CHUNK_BYTES, most - size))):
        digest.update(data)
        of_chunks.append(hashlib.sha256(data).digest())
        size += len(data)
        if len(data) < CHUNK_BYTES:
            # what comes behind it is not of its end
            break
    return digest.hexdigest(), size, of_chunks


def _read_chunk(fd: int, at: int, most: int) -> bytes:
    """So many bytes of a file, fewer only at its end."""
    data = b""
    while len(data) < most and (more := os.pread(fd, most - len(data), at + len(data))):
        data += more
    return data
