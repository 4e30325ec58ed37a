"""Large contents in a bucket: the recipients of URLs, and the deletion of unneeded objects."""

import hashlib
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from fetchwork.db.calls.files import CHUNK_BYTES, PART_BYTES
from tests.sql.contents import plan, refused, sha256, stored_bytes, submit
from tests.support.direct_queue import DirectQueue

KEY = {"access_key_id": "AKID", "secret": "of/buckets+"}
LARGE = 2 * PART_BYTES + 5


@pytest.fixture
def bucket(queue: DirectQueue) -> DirectQueue:
    queue.call("set_bucket", url="s3://b/p", region="eu-west-1", above=CHUNK_BYTES, **KEY)
    return queue


def begin(queue: DirectQueue, size: int = LARGE, name: bytes = b"x") -> dict[str, Any]:
    (begun,) = queue.call("begin_content", owner="alice", sha256=sha256(name), size=size)
    return begun


def note(queue: DirectQueue, content: int, n: int, data: bytes = b"") -> None:
    queue.call("put_chunk", content_id=content, n=n, data=data, sha256=hashlib.sha256(data).hexdigest())


def put_all(queue: DirectQueue, begun: dict[str, Any], size: int = LARGE) -> None:
    for n in range(-(-size // PART_BYTES)):
        note(queue, begun["content_id"], n)
    assert queue.scalar("end_content", content_id=begun["content_id"]) is True


def over(queue: DirectQueue) -> list[int]:
    return [n for (n,) in queue.rows("SELECT n FROM fetchwork.object_over ORDER BY n")]


def test_the_sizes_are_those_of_python(queue: DirectQueue) -> None:
    assert queue.scalar("part_bytes") == PART_BYTES


def test_only_what_is_large_goes_to_the_bucket_and_only_while_there_is_one(bucket: DirectQueue) -> None:
    assert begin(bucket)["part_bytes"] == PART_BYTES
    assert begin(bucket, CHUNK_BYTES, b"y")["part_bytes"] is None
    assert begin(bucket, CHUNK_BYTES + 1, b"z")["part_bytes"] == PART_BYTES
    bucket.call("set_bucket", url=None)
    assert begin(bucket, LARGE, b"later")["part_bytes"] is None
    # an upload that was begun goes on where it was
    assert begin(bucket)["part_bytes"] == PART_BYTES


def test_a_part_s_url_is_for_its_object_and_its_size_alone(bucket: DirectQueue) -> None:
    content = begin(bucket)["content_id"]
    urls = [bucket.scalar("content_url", method="PUT", content_id=content, n=n) for n in range(3)]
    name = bucket.value("SELECT object FROM fetchwork.content")
    for n, url in enumerate(urls):
        assert url.startswith(f"https://b.s3.eu-west-1.amazonaws.com/p/{name}/{n}?")
        assert "X-Amz-SignedHeaders=content-length%3Bhost" in url
        assert "X-Amz-Expires=900&" in url
        assert KEY["secret"] not in url
    for n in (-1, 3):
        assert refused(bucket, "content_url", method="PUT", content_id=content, n=n)[0] == "FWINV"


def test_no_object_is_made_of_which_the_database_knows_nothing(bucket: DirectQueue) -> None:
    with bucket.connection.transaction(force_rollback=True):
        content = begin(bucket)["content_id"]
        with pytest.raises(psycopg.Error, match="begun in this transaction"):
            bucket.scalar("content_url", method="PUT", content_id=content, n=0)


def test_nobody_changes_a_content_that_jobs_may_name(bucket: DirectQueue) -> None:
    begun = begin(bucket)
    put_all(bucket, begun)
    assert refused(bucket, "content_url", method="PUT", content_id=begun["content_id"], n=0)[0] == "FWNOT"


def test_a_content_is_complete_when_each_part_was_told(bucket: DirectQueue) -> None:
    begun = begin(bucket)
    note(bucket, begun["content_id"], 0)
    note(bucket, begun["content_id"], 2)
    note(bucket, begun["content_id"], 2)
    assert begin(bucket)["chunks"] == [0, 2]
    for n, data in ((3, b""), (-1, b""), (1, b"bytes")):
        with pytest.raises(psycopg.Error, match="its bytes are in a bucket"):
            note(bucket, begun["content_id"], n, data)
    # a content that lacks a part is deleted, and all its objects with it
    assert bucket.scalar("end_content", content_id=begun["content_id"]) is False
    assert over(bucket) == [0, 1, 2]
    again = begin(bucket)
    assert again["content_id"] != begun["content_id"]
    put_all(bucket, again)
    assert begin(bucket)["complete"] is True
    assert stored_bytes(bucket) == LARGE


def test_a_run_gets_urls_of_its_own_inputs_alone(bucket: DirectQueue) -> None:
    begun = begin(bucket)
    put_all(bucket, begun)
    entry = {"name": "a", "size": LARGE, "sha256": sha256(b"x")}
    submit(bucket, entry)
    other = begin(bucket, LARGE, b"other")
    put_all(bucket, other)
    run = bucket.started()
    assert plan(bucket, run)["a"]["in_bucket"] is True
    assert bucket.of(run, "content_url", method="GET", content_id=begun["content_id"], n=2)
    assert bucket.of(run, "content_url", method="GET", content_id=other["content_id"], n=0) is None
    given = {"content_id": begun["content_id"], "n": 0, "run_id": run.run_id}
    assert (
        refused(bucket, "content_url", method="GET", token="00000000-0000-4000-8000-000000000000", **given)[0]
        == "FWTOK"
    )
    bucket.finish(run)
    assert bucket.of(run, "content_url", method="GET", content_id=begun["content_id"], n=0) is None


def test_what_a_run_leaves_is_put_kept_and_read_by_its_owner(bucket: DirectQueue) -> None:
    submit(bucket)
    run = bucket.started()
    (begun,) = bucket.call(
        "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=sha256(b"left"), size=LARGE
    )
    assert (begun["part_bytes"], begun["chunks"]) == (PART_BYTES, [])
    content = begun["content_id"]
    for n in range(3):
        assert "X-Amz-Signature" in bucket.of(run, "content_url", method="PUT", content_id=content, n=n)
        assert bucket.of(run, "put_chunk", content_id=content, n=n, data=b"")
    manifest = [{"name": "left", "size": LARGE, "sha256": sha256(b"left")}]
    assert bucket.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"
    state, _ = refused(
        bucket, "content_url", method="PUT", run_id=run.run_id, token=run.token, content_id=content, n=0
    )
    assert state == "FWNOT"
    bucket.finish(run)
    (left,) = bucket.call("job_outputs", jobs=None)
    assert left["files"][0]["in_bucket"] is True
    assert "X-Amz-Signature" in bucket.scalar("content_url", method="GET", content_id=content, n=1)
    assert over(bucket) == []
    bucket.call("drop_outputs", cluster=left["cluster_id"], proc=left["proc_id"], run_id=left["run_id"])
    assert over(bucket) == [0, 1, 2]
    assert bucket.scalar("content_url", method="GET", content_id=content, n=1) is None


def test_objects_go_when_no_url_is_left_that_could_make_them_again(bucket: DirectQueue) -> None:
    begun = begin(bucket)
    put_all(bucket, begun)
    entry = {"name": "a", "size": LARGE, "sha256": sha256(b"x")}
    first = submit(bucket, entry)[0]
    second = submit(bucket, entry)[0]
    bucket.act("remove", first)
    bucket.scalar("drop_files")
    assert over(bucket) == []
    bucket.act("remove", second)
    bucket.scalar("drop_files")
    assert over(bucket) == [0, 1, 2]
    assert stored_bytes(bucket) == 0
    assert bucket.call("objects_over") == []
    objects = [row for (row,) in bucket.rows("SELECT object FROM fetchwork.object_over ORDER BY n")]
    assert bucket.scalar("objects_deleted", objects=objects, ns=[0, 1, 2]) == 0
    bucket.connection.execute("UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'")
    rows = bucket.call("objects_over", most=2)
    assert [(row["object"], row["n"]) for row in rows] == [(objects[0], 0), (objects[1], 1)]
    assert f"/p/{objects[0]}/0?" in rows[0]["url"]
    assert bucket.scalar("objects_deleted", objects=objects[:2], ns=[0, 1]) == 2
    assert bucket.scalar("objects_deleted", objects=objects[:2], ns=[0, 1]) == 0
    assert over(bucket) == [2]


def test_another_bucket_leaves_what_is_in_the_one_before(bucket: DirectQueue) -> None:
    begun = begin(bucket)
    bucket.call("set_bucket", url="https://h.example:9000/b/q q/", above=CHUNK_BYTES, **KEY)
    assert "https://b.s3.eu-west-1" in bucket.scalar(
        "content_url", method="PUT", content_id=begun["content_id"], n=0
    )
    later = begin(bucket, LARGE, b"later")["content_id"]
    url = bucket.scalar("content_url", method="PUT", content_id=later, n=0)
    assert url.startswith("https://h.example:9000/b/q%20q/")
    # a known bucket may get another key
    bucket.call("set_bucket", url="s3://b/p", access_key_id="NEW", secret="new", above=CHUNK_BYTES)
    assert "NEW%2F" in bucket.scalar("content_url", method="PUT", content_id=begun["content_id"], n=0)
    assert "NEW%2F" not in bucket.scalar("content_url", method="PUT", content_id=later, n=0)


@pytest.mark.parametrize(
    "given",
    [
        {"url": "ftp://h/b"},
        {"url": "https://h"},
        {"url": "https://u:p@h/b"},
        {"url": "https://h/b?x=y"},
        {"url": "b"},
        {"url": ""},
        {"url": "s3://b", "secret": None},
        {"url": "s3://b", "access_key_id": ""},
        {"url": "s3://b", "secret": "two words"},
        {"url": "s3://b", "above": 1},
    ],
)
def test_what_is_no_bucket_is_refused(queue: DirectQueue, given: dict[str, Any]) -> None:
    assert refused(queue, "set_bucket", **(KEY | given))[0] == "FWINV"
    assert queue.value("SELECT count(*) FROM fetchwork.bucket") == 0


@pytest.mark.parametrize("url", ["s3://b", "gs://b/p", "s3://h.example/b/p", "http://127.0.0.1:9000/b"])
def test_each_form_of_a_bucket_is_taken(queue: DirectQueue, url: str) -> None:
    queue.call("set_bucket", url=url, **KEY)
    assert queue.value("SELECT above FROM fetchwork.bucket WHERE used") == 64 << 20


def test_a_limit_counts_what_is_in_a_bucket(bucket: DirectQueue) -> None:
    bucket.set("max_owner_file_bytes", LARGE)
    begin(bucket)
    assert refused(bucket, "begin_content", owner="alice", sha256=sha256(b"2"), size=LARGE)[0] == "FWDEN"
    bucket.set("max_file_bytes", LARGE - 1)
    assert refused(bucket, "begin_content", owner="bob", sha256=sha256(b"2"), size=LARGE)[0] == "FWDEN"


def test_an_object_that_can_t_be_deleted_comes_behind_the_others(bucket: DirectQueue) -> None:
    put_all(bucket, begin(bucket))
    bucket.connection.execute(
        "SELECT fetchwork.delete_contents(array_agg(content_id)) FROM fetchwork.content"
    )
    bucket.connection.execute(
        "UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes' + n * interval '1 ms'"
    )
    first, *others = bucket.call("objects_over")
    bucket.call("postpone_objects", objects=[first["object"]], ns=[first["n"]])
    assert [row["n"] for row in bucket.call("objects_over")] == [row["n"] for row in others]
    assert over(bucket) == [0, 1, 2]
    bucket.connection.execute("UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'")
    assert [row["n"] for row in bucket.call("objects_over")] == [1, 2, 0]


def test_a_host_may_try_each_bucket_that_is_in_use(bucket: DirectQueue) -> None:
    begin(bucket)
    bucket.call("set_bucket", url="https://unused.example/q", above=CHUNK_BYTES, **KEY)
    bucket.call("set_bucket", url="https://new.example/q/r", above=CHUNK_BYTES, **KEY)
    probes = bucket.call("bucket_probes")
    assert [probe["bucket"] for probe in probes] == ["s3://b/p", "https://new.example/q/r"]
    assert probes[1]["url"].startswith("https://new.example/q/r/doctor?X-Amz-")
    assert all(KEY["secret"] not in probe["url"] for probe in probes)
