"""A database of contents for tests of their readers."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any, cast

from fetchwork.agent.files.contents import CHUNK_BYTES, Content, Contents, Reader
from fetchwork.db.calls.call import Call
from fetchwork.errors import DatabaseUnavailable

DATA = bytes(range(256)) * 4096 * 2 + b"the rest"


class StandInDatabase:
    """Answers read_chunk from contents by id; a run that has ended gets nothing."""

    def __init__(self, contents: dict[int, bytes]) -> None:
        self.contents = contents
        self.over: set[int] = set()
        self.asked: list[tuple[int, int, int]] = []
        self.pause = asyncio.Event()
        self.pause.set()
        self.away = False

    async def carry(self, call: Call[Any], *, timeout_s: float) -> bytes | None:
        run_id, content, number = (cast(int, call.arguments[name]) for name in ("run_id", "content_id", "n"))
        self.asked.append((run_id, content, number))
        await self.pause.wait()
        if self.away:
            raise DatabaseUnavailable
        if run_id in self.over:
            return None
        return self.contents[content][number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]

    def reader(self, run_id: int) -> Reader:
        return Reader(cast(Any, self), run_id, "token")


def content(data: bytes = DATA, owner: str = "alice") -> Content:
    return Content(("main", owner), hashlib.sha256(data).hexdigest(), len(data))


def opened(directory: Path, limit: int = 1 << 30) -> Contents:
    cache = Contents(directory / "cache", limit)
    cache.open()
    return cache


async def whole(cache: Contents, wanted: Content, reader: Reader, content_id: int = 1) -> bytes:
    parts = [await cache.chunk(wanted, content_id, reader, number, 30.0) for number in range(wanted.chunks)]
    return b"".join(parts)
