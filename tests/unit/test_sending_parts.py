"""Parts of large files on their way to a bucket: parts that wait for their turn take no memory."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchwork.agent.files import sending
from fetchwork.agent.files.parked import OutputSpool, Parked
from fetchwork.db.calls.call import Call
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.runad import RunKey
from fetchwork.sandbox import objects
from tests.support.waiting import until_async


class _Database:
    """Wants everything in a bucket."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, call: Call[Any], timeout_s: float) -> object:
        self.asked.append(call.function)
        if call.function == "begin_content":
            return SimpleNamespace(content_id=1, chunks=[], part_bytes=CHUNK_BYTES)
        return "http://bucket/" if call.function == "content_url" else True


async def test_a_part_is_neither_read_nor_signed_before_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(2 * CHUNK_BYTES + 5)
    path = tmp_path / "large"
    path.write_bytes(large)
    put: list[bytes] = []
    waiting: list[asyncio.Event] = []
    read: list[int] = []

    @asynccontextmanager
    async def aside() -> AsyncIterator[None]:
        waiting.append(asyncio.Event())
        await waiting[-1].wait()
        yield

    def read_part(fd: int, at: int, *others: Any) -> bytes:
        read.append(at)
        return read_one(fd, at, *others)

    read_one = sending._read_part
    monkeypatch.setattr(sending, "_read_part", read_part)
    monkeypatch.setattr(objects, "put", lambda url, data: put.append(data))
    spool = SimpleNamespace(open=lambda parked, one: os.open(path, os.O_RDONLY), most_bytes=len(large))
    one = SimpleNamespace(name="large", mode=0o600, directory=False, number=0, size=len(large))
    database = _Database()
    sent = asyncio.ensure_future(
        sending.send(
            cast("AsyncDatabase", database),
            RunKey(1, "token"),
            cast("OutputSpool", spool),
            cast("Parked", SimpleNamespace(name="parked", files=[one])),
            lambda size: None,
            aside,
        )
    )
    for number in range(3):
        await until_async(lambda number=number: sent.done() or len(waiting) > number)  # type: ignore[misc]
        assert len(read) == database.asked.count("content_url") == number
        waiting[number].set()
    (entry,) = await sent
    assert b"".join(put) == large
    assert entry["size"] == len(large)
