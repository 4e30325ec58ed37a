"""Contents and the files of jobs: stored once for an owner, read by runs, left by runs, and deleted."""

import os
import uuid
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from fetchwork.db.calls.files import CHUNK_BYTES
from tests.sql.contents import (
    FILES,
    described,
    leave,
    parts,
    plan,
    put,
    refused,
    sha256,
    store,
    stored_bytes,
    submit,
)
from tests.support.direct_queue import Claimed, DirectQueue


def read(queue: DirectQueue, run: Claimed, file: dict[str, Any]) -> bytes:
    """A whole file of a plan."""
    data = b""
    while len(data) < file["size"]:
        n = len(data) // CHUNK_BYTES
        part = queue.of(run, "read_chunk", content_id=file["content_id"], n=n)
        assert part
        data += part
    return data


def contents(queue: DirectQueue) -> int:
    return int(queue.value("SELECT count(*) FROM fetchwork.content"))


# Contents of submitters


def test_a_content_is_stored_once_for_its_owner(queue: DirectQueue) -> None:
    data = os.urandom(2 * CHUNK_BYTES + 5)
    assert store(queue, data) == store(queue, data)
    assert contents(queue) == 1
    assert stored_bytes(queue) == len(data)
    asked = {"sha256s": [sha256(data), sha256(b"x")], "sizes": [len(data), 1], "job_bytes": 0}
    assert queue.scalar("lacking_contents", owner="alice", **asked) == [2]
    # another owner's contents are not revealed
    assert queue.scalar("lacking_contents", owner="bob", **asked) == [1, 2]


def test_an_upload_that_ended_half_way_goes_on_where_it_was(queue: DirectQueue) -> None:
    data = os.urandom(3 * CHUNK_BYTES)
    (begun,) = queue.call("begin_content", owner="alice", sha256=sha256(data), size=len(data))
    assert (begun["complete"], begun["chunks"]) == (False, [])
    for n in (0, 2, 2):
        put(queue, begun["content_id"], n, parts(data)[n])
    (again,) = queue.call("begin_content", owner="alice", sha256=sha256(data), size=len(data))
    assert again == {**begun, "chunks": [0, 2]}
    asked = {"sha256s": [sha256(data)], "sizes": [len(data)], "job_bytes": 0}
    assert queue.scalar("lacking_contents", owner="alice", **asked) == [1]
    put(queue, begun["content_id"], 1, parts(data)[1])
    assert queue.scalar("end_content", content_id=begun["content_id"]) is True
    assert queue.scalar("end_content", content_id=begun["content_id"]) is True
    assert queue.scalar("lacking_contents", owner="alice", **asked) == []


@pytest.mark.parametrize(
    ("n", "size", "hash_of"),
    [(0, 5, None), (1, CHUNK_BYTES, None), (3, 5, None), (-1, CHUNK_BYTES, None), (2, 5, b"other")],
)
def test_a_chunk_that_is_not_what_was_announced_is_refused(
    queue: DirectQueue, n: int, size: int, hash_of: bytes | None
) -> None:
    data = os.urandom(2 * CHUNK_BYTES + 5)
    (begun,) = queue.call("begin_content", owner="alice", sha256=sha256(data), size=len(data))
    part = b"x" * size
    put(queue, begun["content_id"], 0, parts(data)[0])
    if (n, hash_of) == (1, None):
        # of the right length and with its own hash: only the hash of the whole shows the error
        put(queue, begun["content_id"], 1, part)
        put(queue, begun["content_id"], 2, parts(data)[2])
    else:
        state, message = refused(
            queue,
            "put_chunk",
            content_id=begun["content_id"],
            n=n,
            data=part,
            sha256=sha256(hash_of or part),
        )
        assert state == "FWINV"
        assert "changed" in message or "allowed" in message or "change" in message
    assert queue.scalar("end_content", content_id=begun["content_id"]) is False
    # it is deleted, and begun anew
    assert contents(queue) == 0
    assert store(queue, data) != begun["content_id"]


def test_small_contents_are_stored_in_one_call(queue: DirectQueue) -> None:
    store(queue, b"known")
    datas = [b"known", b"new", b"new", b"", os.urandom(CHUNK_BYTES)]
    for _ in range(2):
        queue.call("put_whole_contents", owner="alice", datas=datas)
        assert contents(queue) == 4
    asked = {"sha256s": list(map(sha256, datas)), "sizes": list(map(len, datas)), "job_bytes": 0}
    assert queue.scalar("lacking_contents", owner="alice", **asked) == []
    assert stored_bytes(queue) == 8 + CHUNK_BYTES
    submit(queue, described("a", datas[4]), described("b", b"new"), described("c", b""))
    run = queue.started()
    files = plan(queue, run)
    assert [read(queue, run, files[name]) for name in "abc"] == [datas[4], b"new", b""]
    assert refused(queue, "put_whole_contents", owner="alice", datas=[b"x" * (CHUNK_BYTES + 1)])[0] == "FWINV"
    many = [b"%d" % n for n in range(1001)]
    state, message = refused(queue, "put_whole_contents", owner="alice", datas=many)
    assert (state, message) == ("FWINV", "1001 contents in one call; allowed: 1000")
    assert queue.of(run, "put_whole_contents", owner=None, datas=datas) is True
    manifest = [described(str(n), data) for n, data in enumerate(datas)]
    assert queue.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"
    assert queue.of(run, "put_whole_contents", owner=None, datas=datas) is True
    assert contents(queue) == 8
    assert queue.finish(run) == "completed"
    assert queue.of(run, "put_whole_contents", owner=None, datas=datas) is False
    queue.set("max_owner_file_bytes", 1)
    assert refused(queue, "put_whole_contents", owner="alice", datas=[b"xx"])[0] == "FWDEN"


def test_an_empty_file_is_a_content_too(queue: DirectQueue) -> None:
    store(queue, b"")
    submit(queue, described("empty", b""))
    run = queue.started()
    assert read(queue, run, plan(queue, run)["empty"]) == b""


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("max_file_bytes", "a file has 100 bytes; allowed: 99"),
        ("max_job_file_bytes", "the input files of a job have 100 bytes; allowed: 99"),
        ("max_owner_file_bytes", "the files of Owner 'alice' would have 150 bytes; allowed: 99"),
        ("max_all_file_bytes", "there is no room for 100 bytes of files; allowed: 99"),
    ],
)
def test_a_limit_is_said_before_a_byte_is_sent(queue: DirectQueue, setting: str, what: str) -> None:
    store(queue, b"y" * 50)
    queue.set(setting, 99)
    asked = {"sha256s": [sha256(b"x" * 100)], "sizes": [100], "job_bytes": 100}
    state, message = refused(queue, "lacking_contents", owner="alice", **asked)
    assert (state, message.startswith(what)) == ("FWDEN", True), message
    assert setting in message
    if setting != "max_job_file_bytes":
        state, _ = refused(queue, "begin_content", owner="alice", sha256=sha256(b"x" * 100), size=100)
        assert state == "FWDEN"
        # stored contents are not sent
        asked = {"sha256s": [sha256(b"y" * 50)], "sizes": [50], "job_bytes": 50}
        assert queue.scalar("lacking_contents", owner="alice", **asked) == []
    queue.set(setting, 100)


def test_files_of_a_job_are_limited_together_whatever_was_announced(queue: DirectQueue) -> None:
    store(queue, b"a" * 60)
    store(queue, b"b" * 50)
    queue.set("max_job_file_bytes", 100)
    with pytest.raises(psycopg.Error, match="have 110 bytes; allowed: 100") as caught:
        submit(queue, described("a", b"a" * 60), described("b", b"b" * 50, proc=0))
    assert caught.value.sqlstate == "FWDEN"
    submit(queue, described("a", b"a" * 60, proc=0), described("b", b"b" * 50, proc=1), jobs=2)


def test_a_job_that_names_what_is_not_there_is_refused(queue: DirectQueue) -> None:
    (begun,) = queue.call("begin_content", owner="alice", sha256=sha256(b"half"), size=4)
    store(queue, b"of bob", owner="bob")
    for data in (b"half", b"never", b"of bob"):
        with pytest.raises(psycopg.Error, match="not stored, or not any more") as caught:
            submit(queue, described("a", data))
        assert caught.value.sqlstate == "FWNOT"
    assert begun["content_id"]
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 0


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "..", "a/../../b", "./a", "a//b", "a/..", "x" * 256, "a/" * 2100, "a//"]
)
def test_a_name_that_leaves_the_sandbox_is_refused_at_both_ends(queue: DirectQueue, name: str) -> None:
    store(queue, b"1")
    with pytest.raises(psycopg.Error, match="allowed: a relative path") as caught:
        submit(queue, described(name, b"1"))
    assert caught.value.sqlstate == "FWINV"
    submit(queue)
    run = queue.started()
    queue.call("begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=sha256(b""), size=0)
    state, message = refused(
        queue, "keep_outputs", run_id=run.run_id, token=run.token, manifest=Jsonb([described(name, b"")])
    )
    assert (state, "allowed: a relative path" in message) == ("FWINV", True)


def test_files_are_added_in_the_transaction_of_the_submission_only(queue: DirectQueue) -> None:
    store(queue, b"1")
    (job,) = submit(queue)
    state, message = refused(
        queue, "add_job_files", cluster=int(job.split(".")[0]), files=Jsonb([described("a", b"1")])
    )
    assert (state, "was not made in this transaction" in message) == ("FWINV", True)


# Reads of runs


def test_a_run_reads_the_files_of_its_job_and_of_no_other(queue: DirectQueue) -> None:
    large = os.urandom(CHUNK_BYTES + 100)
    store(queue, large)
    store(queue, b"mine")
    store(queue, b"others")
    submit(
        queue,
        described("large", large, mode=0o755, path="/home/alice/large"),
        described("own", b"mine", proc=0),
        described("own", b"others", proc=1),
        {"name": "d/", "mode": 0o750},
        {"name": "u", "url": "https://h/u"},
        {"name": "s", "path": "/data/s"},
        jobs=2,
    )
    run = queue.started()
    files = plan(queue, run)
    assert {name: file["source"] for name, file in files.items()} == {
        **{"large": "content", "own": "content"},
        **{"d/": "directory", "u": "url", "s": "shared"},
    }
    assert (files["large"]["mode"], files["d/"]["mode"], files["large"]["path"]) == (
        0o755,
        0o750,
        "/home/alice/large",
    )
    assert read(queue, run, files["large"]) == large
    assert files["large"]["sha256"] == sha256(large)
    assert read(queue, run, files["own"]) == b"mine"
    theirs = queue.value("SELECT content_id FROM fetchwork.job_file WHERE proc_id = 1")
    assert queue.of(run, "read_chunk", content_id=theirs, n=0) is None
    assert queue.of(run, "read_chunk", content_id=files["own"]["content_id"], n=1) is None
    (row,) = queue.call("run_files", run_id=run.run_id, token=run.token)
    assert row["ad"] == {**row["ad"], **FILES, "Iwd": "/tmp", "Cmd": "/bin/true", "ProcId": 0}


def test_a_stranger_s_token_moves_nothing(queue: DirectQueue) -> None:
    store(queue, b"1")
    submit(queue, described("a", b"1"))
    run = queue.started()
    content = plan(queue, run)["a"]["content_id"]
    stranger = {"run_id": run.run_id, "token": "00000000-0000-0000-0000-000000000001"}
    for function, arguments in {
        "run_files": {},
        "read_chunk": {"content_id": content, "n": 0},
        "begin_content": {"owner": None, "sha256": sha256(b"1"), "size": 1},
        "put_chunk": {"content_id": content, "n": 0, "data": b"1"},
        "keep_outputs": {"manifest": Jsonb([])},
        "note_transfer": {"phase": None},
    }.items():
        assert refused(queue, function, **stranger, **arguments)[0] == "FWTOK", function


def test_a_submitter_s_open_transaction_stops_no_transfer(queue: DirectQueue) -> None:
    store(queue, b"1")
    (job,) = submit(queue, described("a", b"1"))
    run = queue.started()
    holder = queue.another(autocommit=False)
    # holds the job, its run and its content
    holder.act("hold", job)
    store(holder, b"left")
    with queue.within(5):
        file = plan(queue, run)["a"]
        assert read(queue, run, file) == b"1"
        leave(queue, run, out=b"left")
        assert queue.of(run, "note_transfer", phase="output") is False
    holder.connection.rollback()
    assert queue.of(run, "note_transfer", phase="output") is True


# Outputs of runs


def test_what_a_run_left_is_there_from_its_end_on(queue: DirectQueue) -> None:
    (job,) = submit(queue, Out="/tmp/out")
    run = queue.started()
    data = os.urandom(2 * CHUNK_BYTES)
    leave(queue, run, _condor_stdout=b"hello", large=data)
    leave(queue, run, _condor_stdout=b"hello", large=data)
    assert queue.call("job_outputs", jobs=[job]) == []
    assert queue.finish(run) == "completed"
    (left,) = queue.call("job_outputs", jobs=[job])
    assert (left["run_id"], left["owner"], left["ad"]["Out"]) == (run.run_id, "alice", "/tmp/out")
    files = {file["name"]: file for file in left["files"]}
    assert set(files) == {"_condor_stdout", "large"}
    assert files["large"]["sha256"] == sha256(data)
    there = [queue.scalar("read_chunk", content_id=files["large"]["content_id"], n=n) for n in range(3)]
    assert there == [*parts(data), None]
    assert queue.of(run, "keep_outputs", manifest=Jsonb([])) == "late"
    # by cluster, and all; only of that cluster
    assert queue.call("job_outputs", jobs=[job.split(".")[0]]) == [left]
    assert queue.call("job_outputs", jobs=None) == [left]
    assert queue.call("job_outputs", jobs=["999"]) == []

    cluster, proc = map(int, job.split("."))
    assert stored_bytes(queue) == 5 + len(data)
    assert queue.scalar("drop_outputs", cluster=cluster, proc=proc, run_id=run.run_id) is True
    assert queue.scalar("drop_outputs", cluster=cluster, proc=proc, run_id=run.run_id) is False
    assert queue.call("job_outputs", jobs=[job]) == []
    assert contents(queue) == 0
    assert stored_bytes(queue) == 0


def test_an_output_that_no_chunks_make_is_not_kept(queue: DirectQueue) -> None:
    submit(queue)
    run = queue.started()
    state, _ = refused(
        queue, "keep_outputs", run_id=run.run_id, token=run.token, manifest=Jsonb([described("a", b"1")])
    )
    assert state == "FWINV"
    (begun,) = queue.call(
        "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=sha256(b"22"), size=2
    )
    state, _ = refused(
        queue, "keep_outputs", run_id=run.run_id, token=run.token, manifest=Jsonb([described("a", b"22")])
    )
    assert state == "FWINV"
    queue.of(run, "put_chunk", content_id=begun["content_id"], n=0, data=b"33")
    state, _ = refused(
        queue, "keep_outputs", run_id=run.run_id, token=run.token, manifest=Jsonb([described("a", b"22")])
    )
    assert state == "FWINV"


def test_what_a_run_saved_at_its_eviction_is_for_the_next_one(queue: DirectQueue) -> None:
    store(queue, b"1")
    submit(queue, described("a", b"1"))
    for state in (b"one", b"two"):
        run = queue.started()
        (begun,) = queue.call(
            "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=sha256(state), size=3
        )
        queue.of(run, "put_chunk", content_id=begun["content_id"], n=0, data=state)
        assert (
            queue.of(run, "keep_outputs", manifest=Jsonb([described("state", state)]), spool=True) == "kept"
        )
        assert queue.finish(run, "evict", JobPid=7) == "evicted"
        assert queue.call("job_outputs", jobs=None) == []
    run = queue.started()
    files = plan(queue, run)
    assert (files["a"]["direction"], files["state"]["direction"]) == ("input", "spool")
    assert read(queue, run, files["state"]) == b"two"
    assert queue.finish(run) == "completed"
    stored_bytes(queue)
    assert contents(queue) == 0


def checkpoint(queue: DirectQueue, run: Claimed, number: int, **files: bytes) -> str:
    """Save files while a run goes on; return the answer of keep_outputs."""
    for data in files.values():
        (begun,) = queue.call(
            "begin_content",
            owner=None,
            run_id=run.run_id,
            token=run.token,
            sha256=sha256(data),
            size=len(data),
        )
        if not begun["chunks"]:
            queue.of(run, "put_chunk", content_id=begun["content_id"], n=0, data=data)
    manifest = [described(name, data) for name, data in files.items()]
    kept = queue.of(run, "keep_outputs", manifest=Jsonb(manifest), spool=True, checkpoint=number)
    return str(kept)


def test_a_checkpoint_takes_the_place_of_the_one_before_as_a_whole(queue: DirectQueue) -> None:
    submit(queue)
    run = queue.started()
    assert checkpoint(queue, run, 0, same=b"same", old=b"old") == "kept"
    for _ in range(2):
        # the second time as after a crash
        assert checkpoint(queue, run, 1, same=b"same", new=b"newer") == "kept"
    assert contents(queue) == 2
    assert stored_bytes(queue) == 9
    assert queue.rows("SELECT checkpointnumber, files, bytes FROM fetchwork.checkpoints") == [(1, 2, 9)]
    assert queue.value("SELECT facts FROM fetchwork.jobs")["CheckpointNumber"] == 1
    policy = queue.of(run, "run_policy")
    assert policy["LastCkptTime"] >= policy["JobCurrentStartExecutingDate"]
    # a starter that is killed, and a host that is lost, report nothing more
    queue.scalar("starter_gone", run_id=run.run_id, token=run.token)
    assert checkpoint(queue, run, 2) == "late"
    run = queue.started()
    (row,) = queue.call("run_files", run_id=run.run_id, token=run.token)
    assert row["ad"]["CheckpointNumber"] == 1
    assert "LastCkptTime" not in queue.of(run, "run_policy")
    files = {file["name"]: read(queue, run, file) for file in row["files"]}
    assert files == {"same": b"same", "new": b"newer"}
    assert checkpoint(queue, run, 2, third=b"3") == "kept"
    assert contents(queue) == 1
    assert queue.finish(run) == "completed"
    assert queue.value("SELECT facts FROM fetchwork.history")["CheckpointNumber"] == 2
    assert stored_bytes(queue) == contents(queue) == 0


def test_a_checkpoint_does_not_wait_for_who_ends_its_run(queue: DirectQueue) -> None:
    submit(queue)
    run = queue.started()
    assert checkpoint(queue, run, 0, a=b"0") == "kept"
    other = queue.another(autocommit=False)
    other.rows("SELECT run_id FROM fetchwork.run WHERE run_id = %s FOR UPDATE", run.run_id)
    assert checkpoint(queue, run, 1, a=b"11") == "busy"
    assert plan_sizes(queue) == {"a": 1}
    other.connection.rollback()
    assert checkpoint(queue, run, 1, a=b"11") == "kept"
    assert plan_sizes(queue) == {"a": 2}


def plan_sizes(queue: DirectQueue) -> dict[str, int]:
    """The files for the next run: names and sizes."""
    return dict(queue.rows("SELECT name, size FROM fetchwork.job_file WHERE direction = 'spool'"))


def test_a_few_small_files_are_left_in_one_call(queue: DirectQueue) -> None:
    (job,) = submit(queue)
    run = queue.started()
    data = [b"one", b"two", b""]
    manifest = Jsonb([described(name, one) for name, one in zip("abc", data, strict=True)])
    asked = {"manifest": manifest, "datas": data, "seconds": 0.25}
    # a caller that lost the answer asks again, and another token stores nothing
    for _ in range(2):
        assert queue.of(run, "leave_outputs", **asked) == "kept"
    with pytest.raises(psycopg.Error, match="the token is not that of run"):
        queue.call("leave_outputs", run_id=run.run_id, token=str(uuid.uuid4()), **asked)
    assert contents(queue) == 3
    assert queue.finish(run) == "completed"
    noted = queue.value("SELECT ad FROM fetchwork.runs WHERE jobid = %s", job)
    assert noted["TransferOutputBytes"] == 6
    assert noted["TransferOutputSeconds"] > 0.25
    (left,) = queue.call("job_outputs", jobs=[job])
    assert {file["name"]: file["size"] for file in left["files"]} == {"a": 3, "b": 3, "c": 0}
    assert queue.of(run, "leave_outputs", **asked) == "late"
    # all of it or nothing
    submit(queue)
    another = queue.started()
    with pytest.raises(psycopg.Error, match="has no content of this run"):
        queue.of(another, "leave_outputs", **{**asked, "datas": data[:1]})
    assert queue.value("SELECT count(*) FROM fetchwork.content WHERE run_id = %s", another.run_id) == 0
    assert queue.value("SELECT transfer FROM fetchwork.run WHERE run_id = %s", another.run_id) is None


def test_outputs_of_a_run_that_did_not_end_by_itself_are_nobody_s(queue: DirectQueue) -> None:
    (job,) = submit(queue)
    lost = queue.started()
    leave(queue, lost, out=b"of the lost")
    queue.of(lost, "starter_gone")
    assert queue.call("job_outputs", jobs=None) == []
    run = queue.started()
    leave(queue, run, out=b"of the other")
    queue.finish(run)
    (left,) = queue.call("job_outputs", jobs=None)
    (file,) = left["files"]
    assert queue.scalar("read_chunk", content_id=file["content_id"], n=0) == b"of the other"
    stored_bytes(queue)
    assert contents(queue) == 1
    cluster, proc = map(int, job.split("."))
    queue.scalar("drop_outputs", cluster=cluster, proc=proc, run_id=run.run_id)
    assert contents(queue) == 0


@pytest.mark.parametrize("kept", [True, False])
def test_a_late_end_counts_only_if_the_outputs_were_kept(queue: DirectQueue, kept: bool) -> None:
    (job,) = submit(queue)
    run = queue.started()
    if kept:
        leave(queue, run, out=b"1")
    queue.of(run, "starter_gone")
    assert queue.finish(run) == ("completed" if kept else "late")
    # otherwise it runs again: an ended job without its files would be worse
    assert queue.status(job) == (4 if kept else 1)
    assert len(queue.call("job_outputs", jobs=None)) == kept


def test_a_slot_is_free_while_the_outputs_of_its_run_are_brought(queue: DirectQueue) -> None:
    submit(queue, jobs=2)
    run = queue.started()
    assert queue.of(run, "note_transfer", phase="output", direction="input", bytes=5, seconds=0.5)
    other = queue.started()
    assert queue.outcome(run) is None
    leave(queue, run, out=b"1")
    assert queue.of(run, "note_transfer", phase=None, direction="output", bytes=1, seconds=0.25)
    assert queue.finish(run) == "completed"
    noted = queue.value("SELECT transfer FROM fetchwork.run_history WHERE run_id = %s", run.run_id)
    assert noted == {
        **{"TransferInputBytes": 5, "TransferInputSeconds": 0.5},
        **{"TransferOutputBytes": 1, "TransferOutputSeconds": 0.25},
    }
    assert queue.finish(other) == "completed"


@pytest.mark.parametrize("before", [0, 7])
def test_the_bytes_of_a_job_s_files_are_in_its_ad_and_its_events(queue: DirectQueue, before: int) -> None:
    submit(queue)
    if before:
        run = queue.started()
        assert queue.of(run, "note_transfer", phase=None, direction="input", bytes=before, seconds=0.5)
        queue.finish(run, "evict", JobPid=1)
        info = queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 4")
        assert (info["ReceivedBytes"], "SentBytes" in info) == (before, False)
        assert queue.value("SELECT facts -> 'BytesRecvd' FROM fetchwork.jobs") == before
    run = queue.started()
    assert queue.of(run, "note_transfer", phase="output", direction="input", bytes=5, seconds=0.5)
    leave(queue, run, out=b"123")
    assert queue.of(run, "note_transfer", phase=None, direction="output", bytes=3, seconds=0.25)
    assert queue.finish(run) == "completed"
    info = queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 5")
    assert (info["SentBytes"], info["ReceivedBytes"]) == (3, 5)
    assert (info["TotalSentBytes"], info["TotalReceivedBytes"]) == (3, 5 + before)
    moved = queue.rows("SELECT facts ->> 'BytesSent', facts ->> 'BytesRecvd' FROM fetchwork.history")
    assert moved == [("3.0", f"{5 + before}.0")]


# What goes


@pytest.mark.parametrize("how", ["finish", "remove", "removed while it runs"])
def test_a_content_goes_with_the_last_job_that_needs_it(queue: DirectQueue, how: str) -> None:
    store(queue, b"shared")
    store(queue, b"own")
    first = submit(queue, described("a", b"shared"), described("b", b"own", proc=1), jobs=2)
    (other,) = submit(queue, described("a", b"shared"))
    for number, job in enumerate([*first, other]):
        assert contents(queue) == (2 if number < 2 else 1)
        if how == "remove":
            queue.act("remove", job)
        else:
            run = queue.started()
            assert run.job == job
            if how == "finish":
                assert queue.finish(run) == "completed"
            else:
                queue.act("remove", job)
                assert queue.finish(run, "exit", JobPid=7, ExitSignal=15, ExitBySignal=True) == "removed"
        stored_bytes(queue)
    assert contents(queue) == 0
    assert queue.value("SELECT count(*) FROM fetchwork.job_file") == 0
    assert queue.value("SELECT count(*) FROM fetchwork.content_chunk") == 0
    assert stored_bytes(queue) == 0


def test_contents_that_no_job_names_go_after_a_day(queue: DirectQueue) -> None:
    store(queue, b"named")
    submit(queue, described("a", b"named"))
    store(queue, b"not named")
    queue.call("begin_content", owner="alice", sha256=sha256(b"half"), size=4)
    queue.scalar("forget_files")
    assert contents(queue) == 3
    queue.connection.execute("UPDATE fetchwork.content SET begun_at = begun_at - interval '25 hours'")
    queue.scalar("forget_files")
    assert contents(queue) == 1
    assert stored_bytes(queue) == len(b"named")


def test_outputs_that_nobody_fetches_go_after_their_days(queue: DirectQueue) -> None:
    submit(queue)
    run = queue.started()
    leave(queue, run, out=b"1")
    queue.finish(run)
    queue.connection.execute("UPDATE fetchwork.run_history SET ended_at = ended_at - interval '9 days'")
    queue.scalar("forget_files")
    assert len(queue.call("job_outputs", jobs=None)) == 1
    queue.set("output_days", 8)
    queue.scalar("forget_files")
    assert queue.call("job_outputs", jobs=None) == []
    assert contents(queue) == 0


def test_a_content_is_not_deleted_while_a_submission_is_about_to_name_it(queue: DirectQueue) -> None:
    content = store(queue, b"1")
    (job,) = submit(queue, described("a", b"1"))
    submitter = queue.another(autocommit=False)
    submit(submitter, described("a", b"1"))
    queue.act("remove", job)
    with queue.within(5):
        queue.scalar("drop_files")
    submitter.connection.commit()
    assert queue.value("SELECT content_id FROM fetchwork.content") == content
    run = queue.started()
    assert read(queue, run, plan(queue, run)["a"]) == b"1"


def test_a_content_that_was_given_up_half_way_stops_none_that_is_whole(queue: DirectQueue) -> None:
    submit(queue)
    run = queue.started()
    half = {"sha256": sha256(b"changed meanwhile"), "size": 17}
    assert queue.call("begin_content", owner=None, run_id=run.run_id, token=run.token, **half)
    leave(queue, run, out=b"1")
    assert queue.finish(run) == "completed"
    assert [row["run_id"] for row in queue.call("job_outputs", jobs=None)] == [run.run_id]


# Outputs that an access point delivers before the job's end counts


BY_ACCESS_POINT: dict[str, Any] = {"FetchWorkAccessPoint": "ap"}


def ended_with_files(queue: DirectQueue, verdict: dict[str, Any] | None = None, **ad: Any) -> Claimed:
    """A job of an access point that has exited, with its files in the database."""
    submit(queue, **{**BY_ACCESS_POINT, **ad})
    run = queue.started()
    leave(queue, run, out=b"result")
    assert queue.finish(run, verdict=verdict) == "completed"
    return run


def awaited(queue: DirectQueue, access_point: str = "ap") -> list[str]:
    owners = queue.scalar("awaited_owners", access_point=access_point)
    rows = [
        row
        for owner in owners
        for row in queue.call("awaited_outputs", access_point=access_point, of_owner=owner)
    ]
    assert all(row["owner"] in owners for row in rows)
    return [f"{row['cluster_id']}.{row['proc_id']}" for row in rows]


def bring(queue: DirectQueue, run: Claimed) -> bool:
    cluster, proc = map(int, run.job.split("."))
    return bool(queue.scalar("drop_outputs", cluster=cluster, proc=proc, run_id=run.run_id))


def fail_to_bring(queue: DirectQueue, run: Claimed) -> bool:
    cluster, proc = map(int, run.job.split("."))
    where = {"cluster": cluster, "proc": proc, "run_id": run.run_id}
    return bool(queue.scalar("not_brought", **where, reason="no room for out", errno=28))


def test_a_job_of_an_access_point_has_not_ended_before_its_files_are_back(queue: DirectQueue) -> None:
    run = ended_with_files(queue)
    assert (queue.status(run.job), queue.outcome(run)) == (6, "completed")
    assert 5 not in queue.events(run.job)
    shown = queue.value("SELECT facts FROM fetchwork.jobs WHERE jobid = %s", run.job)
    assert shown["TransferringOutput"] is True
    assert queue.value("SELECT running FROM fetchwork.totals") == 1
    queue.check()
    assert awaited(queue) == [run.job]
    assert awaited(queue, "another") == []
    # the slot is free for others meanwhile
    other = queue.submit()
    following = queue.claim()
    assert following is not None and following.job == other
    assert bring(queue, run)
    assert (queue.status(run.job), queue.events(run.job).count(5)) == (4, 1)
    assert queue.value("SELECT run_id FROM fetchwork.job_history WHERE facts ? 'ToE'") == run.run_id
    assert not bring(queue, run)
    assert queue.events(run.job).count(5) == 1
    queue.check()


def test_without_an_access_point_and_without_files_a_job_ends_at_once(queue: DirectQueue) -> None:
    run = ended_with_files(queue, FetchWorkAccessPoint=None)
    assert queue.status(run.job) == 4
    assert awaited(queue) == []
    submit(queue, **BY_ACCESS_POINT)
    nothing = queue.started()
    assert queue.finish(nothing) == "completed"
    assert queue.status(nothing.job) == 4


@pytest.mark.parametrize(
    ("verdict", "status", "event"),
    [
        ({"action": "requeue"}, 1, 4),
        ({"action": "hold", "reason": "bad", "code": 3}, 5, 12),
        ({"action": "remove"}, 3, 9),
    ],
)
def test_what_the_policy_said_counts_when_the_files_are_back(
    queue: DirectQueue, verdict: dict[str, Any], status: int, event: int
) -> None:
    run = ended_with_files(queue, verdict)
    assert queue.status(run.job) == 6
    assert queue.events(run.job)[-1] == 1
    assert bring(queue, run)
    assert (queue.status(run.job), queue.events(run.job)[-1]) == (status, event)
    queue.check()


def test_files_that_cannot_be_written_hold_the_job(queue: DirectQueue) -> None:
    run = ended_with_files(queue)
    assert fail_to_bring(queue, run)
    assert queue.column("hold_code", run.job) == 12
    assert queue.column("hold_subcode", run.job) == 28
    assert queue.column("hold_reason", run.job) == "no room for out"
    assert queue.events(run.job)[-1] == 12
    assert awaited(queue) == []
    assert not fail_to_bring(queue, run)
    queue.check()
    # they are stored until they are asked for, and their delivery ends nothing
    assert [row["run_id"] for row in queue.call("job_outputs", jobs=[run.job])] == [run.run_id]
    assert bring(queue, run)
    assert queue.status(run.job) == 5
    # as with a schedd, a released job runs again
    queue.act("release", run.job)
    again = queue.started()
    assert again.job == run.job
    queue.check()


@pytest.mark.parametrize(("act", "status"), [("hold", 5), ("remove", 3)])
def test_who_holds_or_removes_it_meanwhile_ends_the_waiting(
    queue: DirectQueue, act: str, status: int
) -> None:
    run = ended_with_files(queue)
    assert queue.act(act, run.job) == 1
    assert queue.status(run.job) == status
    assert awaited(queue) == []
    queue.check()
    assert not fail_to_bring(queue, run)
    bring(queue, run)
    assert queue.status(run.job) == status
    queue.check()


def test_an_access_point_that_does_not_come_holds_the_job_in_the_end(queue: DirectQueue) -> None:
    run = ended_with_files(queue)
    queue.scalar("give_up_bringing")
    assert queue.status(run.job) == 6
    queue.set("bring_wait", 0)
    queue.call("maintain_queue")
    assert queue.status(run.job) == 5
    assert queue.column("hold_subcode", run.job) == 110
    assert "access point ap has not brought them" in queue.column("hold_reason", run.job)
    queue.check()


def test_what_an_end_still_waits_for_is_not_forgotten(queue: DirectQueue) -> None:
    run = ended_with_files(queue)
    queue.connection.execute("UPDATE fetchwork.run_history SET ended_at = ended_at - interval '400 days'")
    queue.call("maintain_tables")
    assert awaited(queue) == [run.job]
    assert contents(queue) == 1
    assert bring(queue, run)
    assert (queue.status(run.job), queue.events(run.job).count(5)) == (4, 1)
    queue.check()


def test_a_lost_run_that_reports_late_waits_for_its_files_too(queue: DirectQueue) -> None:
    submit(queue, **BY_ACCESS_POINT)
    run = queue.started()
    leave(queue, run, out=b"result")
    queue.of(run, "starter_gone")
    assert queue.status(run.job) == 1
    assert queue.finish(run) == "completed"
    assert queue.status(run.job) == 6
    queue.check()
    assert bring(queue, run)
    assert (queue.status(run.job), queue.events(run.job).count(5)) == (4, 1)
    queue.check()


def test_a_lost_run_that_reports_late_ends_a_job_that_waits_for_its_next_try(queue: DirectQueue) -> None:
    submit(queue, **BY_ACCESS_POINT)
    run = queue.started()
    leave(queue, run, out=b"result")
    queue.of(run, "starter_gone")
    in_an_hour = int(queue.value("SELECT extract(epoch FROM now())::bigint")) + 3600
    assert queue.call("edit", jobs=[run.job], changes={"DeferralTime": in_an_hour})
    assert queue.value("SELECT not_before FROM fetchwork.job") is not None
    assert queue.finish(run) == "completed"
    assert queue.status(run.job) == 6
    queue.check()
    assert bring(queue, run)
    assert queue.status(run.job) == 4
