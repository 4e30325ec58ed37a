"""Jobs' outputs, delivered: to the right place, complete or not at all, and never anywhere else."""

import asyncio
import errno
import getpass
import hashlib
import multiprocessing
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg.types.json import Jsonb

from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.queue import AsyncQueue
from fetchwork.queue.outputs import bringing, retrieving
from fetchwork.queue.outputs.destinations import TransferFailed, destination
from fetchwork.queue.remote import ended_too
from tests.queue.conftest import Queue
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of

#: root writes files only as their owner
ME = getpass.getuser() if os.geteuid() else "nobody"
COMMAND = """
import sys
from fetchwork.condor.process import main
sys.argv[0] = "condor_transfer_data"
main()
"""
LARGE = os.urandom(2 * CHUNK_BYTES + 3)


@pytest.fixture
def home(public_directory: Callable[[], Path]) -> Path:
    """Iwd, which its owner may write."""
    path = public_directory() / "home"
    path.mkdir()
    _give(path)
    return path


def _give(*paths: Path) -> None:
    account = pwd.getpwnam(ME)
    for path in paths:
        if os.geteuid() == 0:
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def end(
    slots: DirectQueue, home: Path, outputs: dict[str, bytes | None], *, owner: str = ME, **ad: Any
) -> tuple[str, int]:
    """A job that ended and left files (None: a directory); its id and run."""
    whole = {"Cmd": "/bin/true", "Owner": owner, "Iwd": str(home), "FetchWorkFiles": "sandbox", **ad}
    (job,) = slots.submit_many([{}], whole)
    run = slots.started()
    manifest: list[dict[str, Any]] = []
    for name, data in outputs.items():
        if data is None:
            manifest.append({"name": name, "mode": 0o755})
            continue
        digest = hashlib.sha256(data).hexdigest()
        manifest.append({"name": name, "mode": 0o755, "size": len(data), "sha256": digest})
        (begun,) = slots.call(
            "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=digest, size=len(data)
        )
        for n in range(-(-len(data) // CHUNK_BYTES)):
            part = data[n * CHUNK_BYTES : (n + 1) * CHUNK_BYTES]
            slots.of(run, "put_chunk", content_id=begun["content_id"], n=n, data=part)
    assert slots.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"
    assert slots.finish(run) == "completed"
    return job, run.run_id


def tree(home: Path) -> dict[str, bytes | None]:
    """The files and directories below a directory."""
    return {
        str(path.relative_to(home)): None if path.is_dir() else path.read_bytes() for path in home.rglob("*")
    }


# Where to


@pytest.mark.parametrize(
    ("name", "ad", "expected"),
    [
        ("a", {}, "/i/a"),
        ("d/a", {}, "/i/d/a"),
        ("_condor_stdout", {"Out": "o"}, "/i/o"),
        ("_condor_stdout", {"Out": "/x/o"}, "/x/o"),
        ("_condor_stderr", {"Err": "sub/e"}, "/i/sub/e"),
        ("_condor_stdout", {"Out": "/dev/null"}, None),
        ("_condor_stdout", {"Out": "o", "TransferOut": False}, None),
        ("_condor_stderr", {}, None),
        # the cases of HTCondor's remaps: whole name, directory, blanks, escapes, the last semicolon, again
        ("a", {"TransferOutputRemaps": "a=b"}, "/i/b"),
        ("a", {"TransferOutputRemaps": " a = sub/b ; "}, "/i/sub/b"),
        ("a", {"TransferOutputRemaps": "a=/x/b;"}, "/x/b"),
        ("b", {"TransferOutputRemaps": "a=c"}, "/i/b"),
        ("a=b;c", {"TransferOutputRemaps": r"a\=b\;c=d"}, "/i/d"),
        (r"a\b", {"TransferOutputRemaps": r"a\\b=d"}, "/i/d"),
        ("d/a", {"TransferOutputRemaps": "d=e"}, "/i/e/a"),
        ("d/s/a", {"TransferOutputRemaps": "d=/x"}, "/x/s/a"),
        ("d/a", {"TransferOutputRemaps": "d=e;d/a=f"}, "/i/f"),
        ("a", {"TransferOutputRemaps": "a=b;b=c"}, "/i/c"),
        ("d/", {"TransferOutputRemaps": "d=e"}, "/i/e/"),
        ("a", {"TransferOutputRemaps": "a=https://h/a"}, None),
        ("a", {"TransferOutputRemaps": "a=b", "OutputDestination": "https://h/"}, "/i/a"),
    ],
)
def test_an_output_belongs_where_htcondor_brings_it(
    name: str, ad: dict[str, Any], expected: str | None
) -> None:
    found = destination({"Iwd": "/i", **ad}, name)
    assert (None if found is None else found.path) == expected


def test_remaps_that_lead_in_a_circle_are_refused() -> None:
    with pytest.raises(TransferFailed, match="circle") as caught:
        destination({"Iwd": "/i", "TransferOutputRemaps": "a=b;b=a"}, "a")
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize("name", ["/etc/passwd", "../a", "a/../../b", "", "./a", "a//b"])
def test_a_name_that_leaves_the_directory_is_refused_here_too(name: str) -> None:
    with pytest.raises(TransferFailed, match="allowed: a relative path"):
        destination({"Iwd": "/i"}, name)


# Bringing


def test_outputs_come_back_and_are_acknowledged(queue: Queue, home: Path) -> None:
    (home / "old").write_bytes(b"old")
    (home / "sub").mkdir()
    _give(home / "old", home / "sub")
    end(
        queue.direct,
        home,
        {
            "_condor_stdout": b"hello",
            "large": LARGE,
            "old": b"new",
            "d/": None,
            "d/e/": None,
            "d/e/f": b"f",
            "empty": b"",
        },
        Out="sub/out",
    )
    told: list[tuple[int, int]] = []
    assert queue.retrieve(progress=lambda moved, total: told.append((moved, total))) == 1
    assert tree(home) == {
        **{"sub": None, "sub/out": b"hello", "large": LARGE, "old": b"new"},
        **{"d": None, "d/e": None, "d/e/f": b"f", "empty": b""},
    }
    assert {path.owner() for path in home.rglob("*")} == {ME}
    assert (home / "large").stat().st_mode & 0o111
    assert not (home / "sub/out").stat().st_mode & 0o111
    size = len(LARGE) + len("hellonewf")
    assert told[-1] == (size, size)
    assert queue.direct.value("SELECT count(*) FROM fetchwork.content") == 0
    # nothing is left to deliver, and existing files stay as they are
    (home / "old").write_bytes(b"mine")
    assert queue.retrieve() == 0
    assert (home / "old").read_bytes() == b"mine"


def test_jobs_are_brought_by_their_names(queue: Queue, home: Path) -> None:
    first, _ = end(queue.direct, home, {"a": b"1"})
    second, _ = end(queue.direct, home, {"b": b"2"})
    assert queue.retrieve(second) == 1
    assert tree(home) == {"b": b"2"}
    assert queue.retrieve([first.split(".")[0]]) == 1
    assert tree(home) == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize(
    ("outputs", "ad", "number"),
    [
        ({"a": b"1", "large": LARGE}, {"TransferOutputRemaps": "large=no/such"}, errno.ENOENT),
        ({"a": b"1", "_condor_stdout": b"2"}, {"Out": "/etc/fetchwork-test"}, errno.EACCES),
        ({"a": b"1", "there": b"2"}, {}, errno.EISDIR),
        ({"a": b"1", "file/b": b"2"}, {}, errno.ENOTDIR),
        ({"a": b"1", "b": b"2"}, {"TransferOutputRemaps": "a=b;b=a"}, errno.ELOOP),
        ({"a": b"1"}, {"Iwd": "/no/such/directory"}, errno.ENOENT),
    ],
)
def test_what_cannot_be_written_leaves_nothing_and_stays_to_be_brought(
    queue: Queue, home: Path, outputs: dict[str, bytes], ad: dict[str, Any], number: int
) -> None:
    (home / "there").mkdir()
    (home / "file").write_bytes(b"")
    _give(home / "there", home / "file")
    before = tree(home)
    job, _ = end(queue.direct, home, dict(outputs), **ad)
    other, _ = end(queue.direct, home, {"fine": b"1"})
    with pytest.raises(TransferFailed) as caught:
        queue.retrieve()
    assert caught.value.errno == number
    assert str(caught.value).startswith(f"job {job}: ")
    assert tree(home) == {**before, "fine": b"1"}, other
    assert len(queue.direct.call("job_outputs", jobs=None)) == 1


def test_a_host_cannot_make_a_submitter_write_through_a_link(
    queue: Queue, home: Path, public_directory: Callable[[], Path]
) -> None:
    outside = public_directory()
    (outside / "file").write_bytes(b"secret")
    _give(outside, outside / "file")
    (home / "link").symlink_to(outside)
    (home / "to_file").symlink_to(outside / "file")
    job, _ = end(queue.direct, home, {"link/file": b"forged"})
    with pytest.raises(TransferFailed) as caught:
        queue.retrieve(job)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    job, _ = end(
        queue.direct, home, {"x/": None, "x/a": b"1", "to_file": b"forged"}, TransferOutputRemaps="x=link"
    )
    # a link of this name is replaced by the file; the submitter's own paths may lead anywhere
    assert queue.retrieve(job) == 1
    assert (outside / "file").read_bytes() == b"secret"
    assert (home / "to_file").read_bytes() == b"forged"
    assert (outside / "a").read_bytes() == b"1"


def test_a_link_that_the_submitter_named_is_followed(
    queue: Queue, home: Path, public_directory: Callable[[], Path]
) -> None:
    outside = public_directory()
    _give(outside)
    (home / "out").symlink_to(outside / "real")
    end(queue.direct, home, {"_condor_stdout": b"hello"}, Out="out")
    assert queue.retrieve() == 1
    assert (home / "out").is_symlink()
    assert (outside / "real").read_bytes() == b"hello"


def test_what_is_not_what_the_job_left_is_not_written(queue: Queue, home: Path) -> None:
    end(queue.direct, home, {"large": LARGE})
    queue.direct.connection.execute(
        "UPDATE fetchwork.content_chunk SET data = set_byte(data, 5, 255 - get_byte(data, 5)) WHERE n = 0"
    )
    with pytest.raises(TransferFailed, match="does not match its hash"):
        queue.retrieve()
    assert tree(home) == {}


@pytest.mark.parametrize("at", range(5))
def test_who_is_killed_in_between_gets_the_same_result_the_next_time(
    queue: Queue, home: Path, conninfo: str, at: int
) -> None:
    end(queue.direct, home, {"a": b"1", "large": LARGE})
    killed = multiprocessing.get_context("fork").Process(target=_killed, args=(conninfo, at))
    killed.start()
    killed.join()
    assert killed.exitcode == 9
    assert all(path.name.startswith(".") or path.read_bytes() in (b"1", LARGE) for path in home.iterdir())
    assert queue.retrieve() == (0 if at == 4 else 1)
    assert tree(home) == {"a": b"1", "large": LARGE}


def _killed(conninfo: str, at: int) -> None:
    """Deliver all files, and die silently: at a chunk, before a rename, between, after all."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    chunk = bringing._written

    def written(descriptor: int, file: Any) -> Any:
        if at == 0 and file["name"] == "large":
            os.write(descriptor, b"half")
            os._exit(9)
        yield from chunk(descriptor, file)

    rename = os.rename

    def renamed(*names: Any, **more: Any) -> None:
        step()
        if steps == at:
            os._exit(9)
        rename(*names, **more)

    bringing._written = written
    os.rename = renamed
    with Queue(conninfo) as queue:
        if at >= 3:
            database = cast(Any, queue._session).database
            run = database.run

            def dropped(call: Any, **more: Any) -> Any:
                if at == 3 and call.function == "drop_outputs":
                    os._exit(9)
                return run(call, **more)

            database.run = dropped
        queue.retrieve()
    os._exit(9)


def test_two_who_bring_at_the_same_time_bring_the_same(slots: DirectQueue, home: Path, conninfo: str) -> None:
    for n in range(5):
        end(slots, home, {f"a{n}": b"1", f"large{n}": LARGE})
    both = [multiprocessing.get_context("fork").Process(target=_bring, args=(conninfo,)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert tree(home) == {f"a{n}": b"1" for n in range(5)} | {f"large{n}": LARGE for n in range(5)}


def _bring(conninfo: str) -> None:
    with Queue(conninfo) as queue:
        # each finds files gone that the other has acknowledged meanwhile
        list(retrieving.retrieve(cast(Any, queue._session).database, None))


def test_root_writes_as_the_owner_and_for_no_account_that_is_not_there(queue: Queue, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    end(queue.direct, home, {"a": b"1"}, owner="no_such_account")
    with pytest.raises(TransferFailed, match="no account 'no_such_account'"):
        queue.retrieve()
    assert os.geteuid() == 0
    assert tree(home) == {}


# Commands


def test_the_commands_bring_outputs_back(
    fetchwork: Callable[..., Any], slots: DirectQueue, home: Path
) -> None:
    told = fetchwork("transfer-data", "-all")
    assert (told.status, told.out) == (0, "there is nothing to bring back\n")
    job, _ = end(slots, home, {"a": b"1", "large": LARGE})
    told = fetchwork("transfer-data", job)
    assert (told.status, told.out) == (0, f"brought back 2 file(s) of 1 job(s), {len(LARGE) + 1} bytes\n")
    job, _ = end(slots, home, {"a": b"2"}, Iwd="/no/such/directory")
    told = fetchwork("transfer-data", "-all")
    assert (told.status, told.out) == (1, "")
    assert f"job {job}: writing to file /no/such/directory/a: (errno 2)" in told.err
    told = fetchwork("history")
    here = job.partition(".")[0]
    assert f"\nThe database has output files of {here}: 'fetchwork transfer-data JOB'" in told.out
    told = fetchwork("wait", "-q", job)
    assert told.status == 1
    assert "(errno 2)" in told.err
    assert fetchwork("transfer-data").status == 2
    job, _ = end(slots, home, {"b": b"3"})
    told = fetchwork("wait", job)
    assert told.status == 0, told.err
    assert "brought back 1 file(s)" in told.out
    assert (home / "b").read_bytes() == b"3"


def test_outputs_of_a_removed_job_are_brought_back_where_it_is_named(
    fetchwork: Callable[..., Any], slots: DirectQueue, home: Path
) -> None:
    job, run_id = end(slots, home, {"a": b"1"}, FetchWorkAccessPoint="here")
    cluster, proc = map(int, job.split("."))
    slots.call("not_brought", cluster=cluster, proc=proc, run_id=run_id, reason="no room", errno=28)
    slots.act("remove", job)
    told = fetchwork("transfer-data", "-all")
    assert (told.status, told.out) == (0, "there is nothing to bring back\n")
    assert fetchwork("transfer-data", job).status == 0
    assert tree(home) == {"a": b"1"}


def test_an_event_loop_s_queue_brings_outputs_back_too(slots: DirectQueue, home: Path, conninfo: str) -> None:
    job, _ = end(slots, home, {"a": b"1"})

    async def bring() -> int:
        async with AsyncQueue(conninfo) as queue:
            return await queue.retrieve(job)

    assert asyncio.run(bring()) == 1
    assert tree(home) == {"a": b"1"}


def test_of_all_that_a_constraint_selects_those_with_outputs_are_looked_at(home: Path, queue: Queue) -> None:
    for _ in range(3):
        queue.direct.submit_many([{}], {"Cmd": "/bin/true", "Owner": ME})
        queue.direct.finish(queue.direct.started())
    left, _ = end(queue.direct, home, {"a": b"1"})
    end(queue.direct, home, {"b": b"2"}, JobBatchName="other")
    session = session_of(queue)
    assert ended_too(session, 'JobBatchName isnt "other"') == [left]
    assert ended_too(session, [left]) == [left]


def test_condor_transfer_data_brings_outputs_back(slots: DirectQueue, home: Path, conninfo: str) -> None:
    first, _ = end(slots, home, {"a": b"1"})
    end(slots, home, {"b": b"2"}, Iwd="/no/such/directory")

    def run(*words: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            env={**os.environ, "FETCHWORK_DSN": conninfo},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout, ended.stderr

    assert run(first) == (0, "Fetching data files...\n", "")
    assert tree(home) == {"a": b"1"}
    status, out, err = run("-all")
    assert (status, out) == (1, "Fetching data files...\n")
    assert "(errno 2)" in err
    assert run()[0] == run("no job")[0] == 1
    third, _ = end(slots, home, {"c": b"3"}, JobBatchName="wanted")
    end(slots, home, {"d": b"4"}, JobBatchName="left")
    assert run("-constraint", 'JobBatchName == "wanted" && JobStatus == 4')[0] == 0
    assert tree(home) == {"a": b"1", "c": b"3"}
    assert run("-const", "false") == (0, "Fetching data files...\n", "")
    for wrong in (["-constraint", ""], ["-constraint", "A ="], ["-constraint", "true", third]):
        status, _, err = run(*wrong)
        assert (status, err.count("Traceback")) == (1, 0), err
