"""Large files through a bucket: clients that put, get and delete their parts may die at each step."""

import asyncio
import contextlib
import errno
import hashlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest
from psycopg.types.json import Jsonb

from fetchwork import leadertasks
from fetchwork.agent.files import sending
from fetchwork.agent.files.contents import Content, Contents, Reader
from fetchwork.agent.files.parked import OutputSpool
from fetchwork.agent.files.sending import RunOver
from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.files import CHUNK_BYTES, PART_BYTES
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import BucketUnavailable, FetchworkError, NotFound, SubmitError
from fetchwork.handlers.runad import RunKey
from fetchwork.queue.outputs import retrieving
from fetchwork.queue.submitting import contents as stored
from fetchwork.sandbox import fill, objects
from fetchwork.sandbox.failure import TransferFailure
from tests.agent.outputs import Dying, Killed, deliver, park
from tests.support.buckets import KEY, Bucket, serve_bucket
from tests.support.direct_queue import Claimed, DirectQueue

LARGE = os.urandom(2 * PART_BYTES + CHUNK_BYTES + 5)
HASH = hashlib.sha256(LARGE).hexdigest()


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / "spool.outputs")
    made.make()
    return made


@pytest.fixture
def bucket(slots: DirectQueue) -> Iterator[Bucket]:
    with serve_bucket() as bucket:
        slots.call("set_bucket", url=bucket.url, region="eu-west-1", above=CHUNK_BYTES, **KEY)
        yield bucket


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


def in_bucket(bucket: Bucket) -> bytes:
    return b"".join(bucket.objects[path] for path in sorted(bucket.objects))


def send(conninfo: str, path: Path, **more: Any) -> None:
    measured = stored.measured([str(path)])
    with Database(conninfo) as database:
        stored.send(database, "alice", measured, len(LARGE), **more)


def submit(slots: DirectQueue, sha256: str = HASH) -> Claimed:
    """A claimed run of a job with the large input."""
    with slots.connection.transaction():
        (job,) = slots.submit_many([{}], {"Cmd": "/bin/true", "Owner": "alice", "FetchWorkFiles": "sandbox"})
        entry = {"name": "large", "size": len(LARGE), "sha256": sha256}
        slots.call("add_job_files", cluster=int(job.split(".")[0]), files=Jsonb([entry]))
    return slots.started()


def rows_of_bytes(slots: DirectQueue) -> int:
    return int(slots.value("SELECT coalesce(sum(octet_length(data)), 0) FROM fetchwork.content_chunk"))


# Submitting


def test_a_large_input_goes_to_the_bucket_and_the_database_has_its_name(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path
) -> None:
    told: list[tuple[int, int]] = []
    send(conninfo, large, progress=lambda sent, total: told.append((sent, total)))
    assert in_bucket(bucket) == LARGE
    assert [len(bucket.objects[path]) for path in sorted(bucket.objects)] == [PART_BYTES] * 2 + [
        CHUNK_BYTES + 5
    ]
    assert rows_of_bytes(slots) == 0
    assert told[-1] == (len(LARGE), len(LARGE))
    # the content is stored once
    send(conninfo, large)
    assert bucket.count("PUT") == 3


def test_a_submit_that_is_killed_at_any_part_goes_on_where_it_was(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, left = objects.put, 0

    def die(url: str, data: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        put(url, data)

    monkeypatch.setattr(objects, "put", die)
    for left in (0, 1, 1):  # noqa: B007 - counted down by each part
        with pytest.raises(Killed):
            send(conninfo, large)
    assert bucket.count("PUT") == 2
    monkeypatch.undo()
    send(conninfo, large)
    assert bucket.count("PUT") == 3
    assert in_bucket(bucket) == LARGE
    assert slots.value("SELECT bool_and(complete) FROM fetchwork.content")


def test_a_file_that_changes_while_it_is_sent_is_noticed_before_it_is_whole(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path
) -> None:
    def changed(path: str, numbers: Any) -> Iterator[bytes]:
        for n, data in zip(numbers, stored.read_chunks(path, numbers), strict=True):
            yield data if n < 9 else bytes(len(data))

    with pytest.raises(SubmitError, match="changed while it was sent"):
        send(conninfo, large, source=changed)
    assert slots.value("SELECT count(*) FROM fetchwork.content WHERE complete") == 0


@pytest.mark.parametrize("status", [500, 403, 404, 307, 206])
def test_a_bucket_that_answers_otherwise_is_said_and_no_redirect_is_followed(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path, status: int
) -> None:
    bucket.broken = status
    with pytest.raises(BucketUnavailable, match=f"answers {status}") as caught:
        send(conninfo, large)
    assert "X-Amz" not in str(caught.value)
    assert len(bucket.asked) == 1
    bucket.broken = 0
    send(conninfo, large)
    assert in_bucket(bucket) == LARGE


def test_a_key_that_is_not_the_bucket_s_stores_nothing(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path
) -> None:
    slots.call("set_bucket", url=bucket.url, access_key_id="AKID", secret="another", above=CHUNK_BYTES)
    with pytest.raises(BucketUnavailable, match="answers 403 Forbidden"):
        send(conninfo, large)
    assert bucket.objects == {}


def test_a_bucket_that_is_not_there_is_unavailable(conninfo: str, slots: DirectQueue, large: Path) -> None:
    with serve_bucket() as gone:
        pass
    slots.call("set_bucket", url=gone.url, above=CHUNK_BYTES, **KEY)
    with pytest.raises(BucketUnavailable, match=r"does not answer: .*Connection refused"):
        send(conninfo, large)


def test_a_url_of_one_size_takes_no_other(conninfo: str, slots: DirectQueue, bucket: Bucket) -> None:
    (begun,) = slots.call("begin_content", owner="alice", sha256=HASH, size=len(LARGE))
    url = slots.scalar("content_url", method="PUT", content_id=begun["content_id"], n=0)
    for data in (b"", LARGE[: PART_BYTES + 1], LARGE[: PART_BYTES - 1]):
        with pytest.raises(BucketUnavailable, match="403"):
            objects.put(url, data)
    with pytest.raises(BucketUnavailable, match="403"):
        objects.delete(url)
    objects.put(url, LARGE[:PART_BYTES])
    assert list(bucket.objects.values()) == [LARGE[:PART_BYTES]]


# Hosts


async def test_an_agent_reads_a_content_out_of_the_bucket_once_for_all(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path
) -> None:
    await asyncio.to_thread(send, conninfo, large)
    run = submit(slots)
    cache = Contents(large.parent / "cache", 1 << 30)
    cache.open()
    content = Content(("main", "alice"), HASH, len(LARGE), in_bucket=True)
    content_id = slots.value("SELECT content_id FROM fetchwork.content")
    async with AsyncDatabase(conninfo) as database:
        reader = Reader(database, run.run_id, str(run.token), in_bucket=True)

        async def whole() -> bytes:
            parts = [await cache.chunk(content, content_id, reader, n, 30.0) for n in range(content.chunks)]
            return b"".join(parts)

        assert set(await asyncio.gather(whole(), whole())) == {LARGE}
        assert await whole() == LARGE
        assert bucket.count("GET") == content.chunks
        # a content larger than the cache is passed through
        small = Contents(large.parent / "small", PART_BYTES)
        small.open()
        assert await small.chunk(content, content_id, reader, 17, 30.0) == LARGE[17 * CHUNK_BYTES :]
        slots.finish(run)
        with pytest.raises(NotFound):
            await small.chunk(content, content_id, reader, 0, 30.0)
        await cache.close()
        await small.close()


@pytest.mark.parametrize("way", ["changed", "gone", "cut"])
async def test_an_agent_hands_out_nothing_that_is_not_what_was_put_there(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path, way: str
) -> None:
    await asyncio.to_thread(send, conninfo, large)
    run = submit(slots)
    last = max(bucket.objects)
    if way == "gone":
        del bucket.objects[last]
    else:
        bucket.objects[last] = bytes(len(bucket.objects[last])) if way == "changed" else b"cut"
    cache = Contents(large.parent / "cache", 1 << 30)
    cache.open()
    content = Content(("main", "alice"), HASH, len(LARGE), in_bucket=True)
    content_id = slots.value("SELECT content_id FROM fetchwork.content")
    async with AsyncDatabase(conninfo) as database:
        reader = Reader(database, run.run_id, str(run.token), in_bucket=True)
        with pytest.raises(FetchworkError):
            for n in range(content.chunks):
                await cache.chunk(content, content_id, reader, n, 30.0)
        await cache.close()
    assert list(cache.names) == []


def test_a_hook_compares_what_came_out_of_a_bucket(tmp_path: Path) -> None:
    def filled(data: bytes, sha256: str) -> None:
        (tmp_path / ".fetchwork.files").unlink(missing_ok=True)
        file = {"name": "large", "source": "content", "direction": "input", "mode": 0o644, "size": len(data)}
        file |= {"content_id": 1, "sha256": sha256, "in_bucket": True}
        plan = {
            "ad": {},
            "files": [file],
            "executable": False,
            "plugins": {},
            "plugin_limit_s": 1,
            "has_key": False,
        }

        def ask(name: str, arg: str) -> bytes:
            if name == "input_plan":
                return json.dumps(plan).encode()
            n = int(arg.split()[1])
            return data[n * CHUNK_BYTES : (n + 1) * CHUNK_BYTES]

        fill.fill(str(tmp_path), ask, lambda more: None)

    filled(LARGE, HASH)
    with pytest.raises(TransferFailure, match="the bucket does not have what was put there") as caught:
        filled(LARGE[:-1] + bytes([LARGE[-1] ^ 1]), HASH)
    assert (caught.value.code, caught.value.subcode) == (13, 5)


@pytest.mark.parametrize("done_first", [False, True])
async def test_an_agent_that_dies_around_any_call_leaves_what_the_next_one_goes_on_with(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, bucket: Bucket, tmp_path: Path, done_first: bool
) -> None:
    for number in itertools.count(1):
        slots.submit(FetchWorkFiles="sandbox")
        run = slots.started()
        bucket.objects.clear()
        name = park(spool, tmp_path, {"left": LARGE})
        dying = Dying(conninfo)
        dying.left, dying.done_first = number, done_first
        async with dying:
            try:
                await deliver(dying, spool, name, run)
                died = False
            except Killed:
                died = True
        async with AsyncDatabase(conninfo) as database:
            await deliver(database, spool, name, run)
        assert in_bucket(bucket) == LARGE
        assert slots.finish(run) == "completed"
        if not died:
            break
    assert number > 8
    assert rows_of_bytes(slots) == 0


async def test_nobody_puts_what_a_run_leaves_that_is_over(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, bucket: Bucket, tmp_path: Path
) -> None:
    slots.submit(FetchWorkFiles="sandbox")
    run = slots.started()
    slots.finish(run)
    async with AsyncDatabase(conninfo) as database:
        with pytest.raises(RunOver):
            await deliver(database, spool, park(spool, tmp_path, {"left": LARGE}), run)
    assert bucket.objects == {}


# Back, and away


async def test_what_was_left_comes_back_and_its_objects_go_when_it_is_time(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, bucket: Bucket, tmp_path: Path
) -> None:
    slots.submit(FetchWorkFiles="sandbox", Iwd=str(tmp_path), TransferOutputRemaps="left=back")
    run = slots.started()
    async with AsyncDatabase(conninfo) as database:
        await deliver(database, spool, park(spool, tmp_path, {"left": LARGE}), run)
        slots.finish(run)
        with Database(conninfo) as queue:
            (left,) = queue.run(file_calls.job_outputs(jobs=None))
            kept = dict(bucket.objects)
            bucket.objects[max(kept)] = bytes(len(kept[max(kept)]))
            with pytest.raises(FetchworkError, match="does not match its hash"):
                retrieving.bring_outputs(queue, left)
            assert not (tmp_path / "back").exists()
            bucket.objects.update(kept)
            assert retrieving.bring_outputs(queue, left) == len(LARGE)
            assert (tmp_path / "back").read_bytes() == LARGE
            queue.run(file_calls.drop_outputs(cluster=left.cluster_id, proc=left.proc_id, run_id=left.run_id))
        session = cast(Any, SimpleNamespace(database=database))
        assert await leadertasks.delete_objects(session.database) == 0
        assert len(bucket.objects) == 3
        slots.connection.execute("UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'")
        bucket.broken = 500
        assert await leadertasks.delete_objects(session.database) == 0
        assert bucket.count("DELETE") == 1
        # the object was deleted before, but the answer was lost
        bucket.broken, first = 0, min(bucket.objects)
        del bucket.objects[first]
        assert await leadertasks.delete_objects(session.database) == 3
        assert bucket.objects == {}
        assert slots.value("SELECT count(*) FROM fetchwork.object_over") == 0


Left: TypeAlias = Callable[..., Awaitable[None]]


@pytest.fixture
def left(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Left:
    """Run a job for each file that leaves the file as output, and deliver it."""
    monkeypatch.setattr(retrieving, "acting_for", lambda owner: contextlib.nullcontext())
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")

    async def leave(*files: tuple[str, bytes]) -> None:
        async with AsyncDatabase(conninfo) as database:
            for name, data in files:
                slots.submit(FetchWorkFiles="sandbox", Iwd=str(tmp_path))
                run = slots.started()
                await deliver(database, spool, park(spool, tmp_path, {name: data}), run)
                slots.finish(run)

    return leave


async def test_an_output_that_a_bucket_has_lost_keeps_no_other_job_s(
    conninfo: str, bucket: Bucket, left: Left, tmp_path: Path
) -> None:
    await left(("lost", LARGE), ("fine", b"1"))
    bucket.objects.clear()
    with Database(conninfo) as queue:
        lost, fine = retrieving.retrieve(queue, None)
    assert (lost["files"], lost["errno"]) == (0, errno.ENOENT)
    assert "does not have what it was given" in lost["problem"]
    assert (fine["files"], fine["problem"]) == (1, None)
    assert (tmp_path / "fine").read_bytes() == b"1"


async def test_a_bucket_that_is_gone_keeps_no_other_s_objects(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path
) -> None:
    with serve_bucket() as lost:
        slots.call("set_bucket", url=lost.url, above=CHUNK_BYTES, **KEY)
        await asyncio.to_thread(send, conninfo, large)
    slots.connection.execute("DELETE FROM fetchwork.content_chunk")
    slots.connection.execute("SELECT fetchwork.delete_contents(array_agg(content_id)) FROM fetchwork.content")
    slots.call("set_bucket", url=bucket.url, region="eu-west-1", above=CHUNK_BYTES, **KEY)
    await asyncio.to_thread(send, conninfo, large)
    slots.connection.execute("SELECT fetchwork.delete_contents(array_agg(content_id)) FROM fetchwork.content")
    slots.connection.execute("UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'")
    async with AsyncDatabase(conninfo) as database:
        session = cast(Any, SimpleNamespace(database=database))
        assert await leadertasks.delete_objects(session.database) == 3
    assert bucket.objects == {}
    assert slots.value("SELECT count(*) FROM fetchwork.object_over") == 3


def over(slots: DirectQueue, bucket: Bucket) -> list[str]:
    """Paths of the objects that are no longer needed and whose delay has passed, the oldest first."""
    slots.connection.execute("DELETE FROM fetchwork.content_chunk")
    slots.connection.execute("SELECT fetchwork.delete_contents(array_agg(content_id)) FROM fetchwork.content")
    slots.connection.execute(
        "UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes' + n * interval '1 ms'"
    )
    objects = {path.rpartition("/")[2]: path for path in bucket.objects}
    return [objects[str(n)] for (n,) in slots.rows("SELECT n FROM fetchwork.object_over ORDER BY over_at")]


async def test_an_object_that_is_never_deleted_stops_none_behind_it(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(send, conninfo, large)
    first, *others = over(slots, bucket)
    bucket.locked = {first}
    # each call may ask for one object only
    monkeypatch.setattr(leadertasks, "OBJECTS", 1)
    async with AsyncDatabase(conninfo) as database:
        session = cast(Any, SimpleNamespace(database=database))
        assert await leadertasks.delete_objects(session.database) == len(others) == 2
        assert set(bucket.objects) == {first}
        # the deletion is not retried at once, and not forgotten
        assert await leadertasks.delete_objects(session.database) == 0
        assert bucket.count("DELETE", 403) == 1
        bucket.locked.clear()
        slots.connection.execute("UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'")
        assert await leadertasks.delete_objects(session.database) == 1
    assert bucket.objects == {}


async def test_a_bucket_that_deletes_nothing_is_left_alone_after_a_few_refusals(
    conninfo: str, slots: DirectQueue, bucket: Bucket, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(send, conninfo, large)
    over(slots, bucket)
    bucket.broken = 403
    monkeypatch.setattr(leadertasks, "REFUSALS", 2)
    async with AsyncDatabase(conninfo) as database:
        session = cast(Any, SimpleNamespace(database=database))
        assert await leadertasks.delete_objects(session.database) == 0
    assert bucket.count("DELETE") == 2
    assert slots.value("SELECT count(*) FROM fetchwork.object_over") == 3


async def test_outputs_in_a_bucket_that_does_not_answer_keep_no_other_job_s(
    conninfo: str, bucket: Bucket, left: Left, tmp_path: Path
) -> None:
    await left(("one", LARGE), ("two", LARGE), ("fine", b"1"))
    bucket.broken = 503
    with Database(conninfo) as queue:
        one, two, fine = retrieving.retrieve(queue, None)
        assert [told["files"] for told in (one, two, fine)] == [0, 0, 1]
        assert "answers 503" in one["problem"] and "answers 503" in two["problem"]
        # each further request might delay the client for half a minute
        assert bucket.count("GET") == 1
        bucket.broken = 0
        assert [told["files"] for told in retrieving.retrieve(queue, None)] == [1, 1]
    assert (tmp_path / "one").read_bytes() == LARGE


async def test_who_waits_for_a_bucket_has_given_its_turn_to_others(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, bucket: Bucket, tmp_path: Path
) -> None:
    slots.submit(FetchWorkFiles="sandbox")
    run = slots.started()
    name = park(spool, tmp_path, {"left": LARGE})
    asides: list[int] = []

    @contextlib.asynccontextmanager
    async def aside() -> AsyncIterator[None]:
        before = bucket.count("PUT")
        yield
        asides.append(bucket.count("PUT") - before)

    async with AsyncDatabase(conninfo) as database:
        key = RunKey(run.run_id, str(run.token))
        await sending.send(database, key, spool, spool.read(name), lambda size: None, aside)
    # one object each, and none without a bucket
    assert asides == [1, 1, 1] and bucket.count("PUT") == 3
