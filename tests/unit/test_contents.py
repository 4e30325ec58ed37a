"""The agent's cache of contents: read once for all readers, separate for each owner, bounded, never wrong."""

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from fetchwork.agent.files.contents import CHUNK_BYTES, Reader
from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.call import Call
from fetchwork.errors import DatabaseUnavailable, NotFound
from fetchwork.sandbox import objects
from tests.support.stand_in_contents import DATA, StandInDatabase, content, opened, whole
from tests.support.waiting import PATIENCE_S


async def test_a_content_is_read_once_for_all_that_want_it_and_kept_for_others(
    tmp_path: Path,
) -> None:
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path)
    got = await asyncio.gather(*(whole(cache, content(), database.reader(run)) for run in range(10)))
    assert got == [DATA] * 10
    assert await whole(cache, content(), database.reader(99)) == DATA
    assert [number for _, _, number in database.asked] == [0, 1, 2]
    await until_kept(tmp_path)
    assert list(cache.names) == [content().name]
    await cache.close()


async def until_kept(directory: Path) -> None:
    """A content is handed out before it is synced to the disk and kept."""
    async with asyncio.timeout(PATIENCE_S):
        while [*directory.rglob("*.partial")]:
            await asyncio.sleep(0.01)


async def test_what_was_cached_is_there_after_a_restart_and_what_was_not_whole_is_not(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path)
    await whole(cache, content(), database.reader(1))
    await until_kept(tmp_path)
    name = content().name
    half = tmp_path / "cache" / f"{name}.partial"
    half.write_bytes(b"half")
    database.asked.clear()
    again = opened(tmp_path)
    assert await whole(again, content(), database.reader(2)) == DATA
    assert database.asked == []
    assert not half.exists()


async def test_two_owners_of_the_same_content_have_one_each(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA, 2: DATA}), opened(tmp_path)
    assert await whole(cache, content(), database.reader(1), 1) == DATA
    assert await whole(cache, content(owner="bob"), database.reader(2), 2) == DATA
    assert {asked for _, asked, _ in database.asked} == {1, 2}
    assert content().name != content(owner="bob").name


async def test_a_content_that_is_not_what_its_hash_says_is_not_kept(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA[:-1] + b"!"}), opened(tmp_path)
    with pytest.raises(NotFound, match="does not match its hash"):
        await whole(cache, content(), database.reader(1))
    assert list(cache.names) == []


async def test_where_one_run_is_over_the_next_reads_on(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path)
    database.pause.clear()
    first = asyncio.ensure_future(whole(cache, content(), database.reader(1)))
    second = asyncio.ensure_future(whole(cache, content(), database.reader(2)))
    while not database.asked:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    database.over.add(1)
    database.pause.set()
    assert await second == DATA
    assert await first == DATA


async def test_a_database_that_is_away_is_told_and_asked_again_later(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path)
    database.away = True
    with pytest.raises(DatabaseUnavailable):
        await cache.chunk(content(), 1, database.reader(1), 0, 30.0)
    database.away = False
    assert await whole(cache, content(), database.reader(1)) == DATA


async def test_the_cache_keeps_to_its_limit_and_forgets_what_was_wanted_longest_ago(tmp_path: Path) -> None:
    parts = {number: bytes([number]) * CHUNK_BYTES for number in range(1, 5)}
    database, cache = StandInDatabase(parts), opened(tmp_path, limit=3 * CHUNK_BYTES)
    for number, data in parts.items():
        await whole(cache, content(data), database.reader(1), number)
        await whole(cache, content(parts[1]), database.reader(1), 1)
    await until_kept(tmp_path)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 3 * CHUNK_BYTES


async def test_what_is_larger_than_half_of_the_cache_is_passed_through(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path, limit=len(DATA))
    assert await whole(cache, content(), database.reader(1)) == DATA
    assert list(cache.names) == []


async def test_a_cache_that_can_not_be_written_only_slows_things_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fetchwork.agent.files.contents._write", full)
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path)
    assert await whole(cache, content(), database.reader(1)) == DATA
    assert list(cache.names) == []


async def test_a_chunk_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    database, cache = StandInDatabase({1: DATA}), opened(tmp_path)
    for number in (-1, 3):
        with pytest.raises(NotFound):
            await cache.chunk(content(), 1, database.reader(1), number, 1.0)


def test_lists_of_bytes_travel_as_they_are() -> None:
    call = file_calls.put_whole_contents(owner="alice", datas=[b"1", b"2"])
    sql, params = call.statement()
    # %s would be text of twice the length, which the server parses byte by byte
    assert sql.endswith("(owner => %s, datas => %b)")
    assert params == ["alice", [b"1", b"2"]]


async def test_a_bucket_that_does_not_answer_takes_no_threads_of_the_loop_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signing:
        async def run(self, call: Call[Any], *, timeout_s: float) -> str:
            return "http://bucket/object"

    answers = threading.Event()

    def get(url: str, first: int, size: int) -> bytes:
        answers.wait()
        return DATA[first : first + size]

    monkeypatch.setattr(objects, "get", get)
    cache = opened(tmp_path, limit=0)
    reader = Reader(cast(Any, Signing()), 7, "token", in_bucket=True)
    asked = [asyncio.ensure_future(cache.chunk(content(), 1, reader, 0, 30.0)) for _ in range(40)]
    try:
        for _ in range(10):
            # each reaches its request
            await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), PATIENCE_S) == "free"
    finally:
        answers.set()
        assert {len(data) for data in await asyncio.gather(*asked)} == {CHUNK_BYTES}
