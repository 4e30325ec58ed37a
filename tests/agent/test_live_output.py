"""The agent's uploads of running jobs' output: from a real process's files to the database."""

import asyncio
import errno
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from fetchwork.agent.root import privilegedpart
from fetchwork.agent.root.privilegedclient import PrivilegedClient
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import liveoutput as shipping
from fetchwork.agent.runs.liveoutput import LiveOutputs, Unreadable, open_as_user
from fetchwork.db.calls import reading, runs
from fetchwork.db.calls.call import Call
from fetchwork.process import Process
from tests.support.waiting import PATIENCE_S, until

from .conftest import Jobs, WatchingHooks, process_of

#: as a starter: a job with files as its output
STARTER = """
import subprocess, sys
out, err, user, *command = sys.argv[1:]
with open(out, "ab") as stdout, open(err, "ab") as stderr:
    subprocess.Popen(command, stdout=stdout, stderr=stderr, stdin=subprocess.PIPE,
        user=user or None, group=0 if not user else 65534, extra_groups=[] if user else None).wait()
"""
#: a job that ends when its starter's file says so
JOB = ["sh", "-c", 'echo begun; while [ ! -e "$0" ]; do sleep 0.05; done; echo over; echo why >&2']

StartRun = Callable[..., Awaitable[Process]]


@pytest.fixture
async def outputs(agent: WatchingHooks) -> AsyncIterator[LiveOutputs]:
    outputs = LiveOutputs(agent.context.session, agent.runs, partial(open_as_user, SignalRights()))
    yield outputs
    await outputs.close()


@pytest.fixture
def folder(public_directory: Callable[[], Path]) -> Path:
    folder = public_directory()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def running(agent: WatchingHooks, folder: Path) -> Iterator[StartRun]:
    """A job that runs and writes to out and err in the folder until a file "end" appears; return its
    process.
    """
    started = []

    async def start(command: list[str] = JOB, user: str = "") -> Process:
        agent.submit()
        words = [str(folder / "out"), str(folder / "err"), user, *command, str(folder / "end")]
        process = subprocess.Popen([sys.executable, "-c", STARTER, *words], start_new_session=True)
        started.append(process)
        starter = process_of(process)
        await agent.begin(starter)
        until(lambda: (folder / "out").exists() and (folder / "out").stat().st_size > 0)
        (child,) = starter.children()
        return child

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def watch(jobs: Jobs) -> list[reading.OutputChunk]:
    """The rows that a watcher of job 1.0 gets."""
    return jobs.database.run(
        reading.watch_output(cluster=1, proc=0, run_id=1, stdout_at=None, stderr_at=None)
    )


def seen(jobs: Jobs) -> dict[int, str]:
    """The text of each stream that a watcher sees."""
    text: dict[int, str] = {}
    for row in watch(jobs):
        if row.stream is not None and row.content is not None:
            text[row.stream] = text.get(row.stream, "") + row.content.decode()
    return text


def problem(jobs: Jobs) -> str | None:
    return watch(jobs)[0].problem


async def watched(outputs: LiveOutputs, jobs: Jobs) -> None:
    """Let a person watch, and the agent upload once."""
    watch(jobs)
    outputs.watched()
    await outputs.round()


async def test_agent_without_runs_does_not_ask_who_watches(
    outputs: LiveOutputs, running: StartRun, agent: WatchingHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    database = agent.context.session.database
    run = database.run

    async def counted(call: Call[object], **options: Any) -> object:
        asked.append(call)
        return await run(call, **options)

    await agent.context.session.hello(PATIENCE_S)
    monkeypatch.setattr(database, "run", counted)
    for _ in range(3):
        await outputs.round()
    assert not asked
    await running()
    asked.clear()
    await outputs.round()
    assert len(asked) == 1


async def test_nothing_is_read_until_somebody_watches(
    outputs: LiveOutputs, running: StartRun, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "LOOK_S", 1e6)
    await running()
    await outputs.round()
    assert outputs._readers == {}
    assert seen(jobs) == {}
    # an agent that missed the notification polls now and then
    await outputs.round()
    assert outputs._readers == {}
    outputs.watched()
    await outputs.round()
    assert seen(jobs) == {1: "begun\n"}


async def test_what_a_job_writes_last_is_shipped_after_its_end(
    outputs: LiveOutputs, running: StartRun, jobs: Jobs, folder: Path
) -> None:
    job = await running()
    await watched(outputs, jobs)
    (folder / "end").touch()
    await asyncio.to_thread(until, lambda: not job.alive)
    await outputs.round()
    assert seen(jobs) == {1: "begun\nover\n", 2: "why\n"}
    assert outputs._readers == {}
    assert not watch(jobs)[-1].running


async def test_reading_ends_when_nobody_watches_any_more(
    outputs: LiveOutputs, running: StartRun, jobs: Jobs
) -> None:
    await running()
    await watched(outputs, jobs)
    (known,) = outputs._readers.values()
    program = Process.find(known[2]._process.pid)  # type: ignore[attr-defined]
    assert program is not None and program.alive
    jobs.database.query("UPDATE fetchwork.output_watch SET watched_until = now() - interval '1 s'")
    await outputs.round()
    assert outputs._readers == {} and not program.alive


async def test_an_agent_that_may_not_read_says_so(agent: WatchingHooks, running: StartRun) -> None:
    async def refuses(job: Process) -> shipping.OutputReader:
        raise Unreadable("it may not")

    await running()
    seen(agent)
    outputs = LiveOutputs(agent.context.session, agent.runs, refuses)
    await outputs.round()
    assert problem(agent) == "it may not"
    # a failed upload is not tried again each second
    assert agent.database.run(runs.watched_output(host_id=1)) == []


async def test_output_that_goes_nowhere_is_said(outputs: LiveOutputs, running: StartRun, jobs: Jobs) -> None:
    await running(["sh", "-c", "echo begun; exec sleep 1000 > /dev/null 2>&1"])
    seen(jobs)
    async with asyncio.timeout(PATIENCE_S):
        while problem(jobs) is None:
            outputs.watched()
            await outputs.round()
            if outputs._readers:
                # between echo and exec
                await outputs.close()
            await asyncio.sleep(0.05)
    assert "neither stdout nor stderr of the job is a file" in (problem(jobs) or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
async def test_root_reads_as_the_job_s_account_and_no_more(
    outputs: LiveOutputs, running: StartRun, jobs: Jobs, folder: Path
) -> None:
    job = await running(user="nobody")
    assert job.owner == pwd.getpwnam("nobody").pw_uid
    seen(jobs)
    outputs.watched()
    # files that the job's account may not read, the agent does not read for it
    (folder / "out").chmod(0o200)
    (folder / "err").chmod(0o600)
    os.chown(folder / "err", 0, 0)
    await outputs.round()
    assert seen(jobs) == {}
    assert "is a file that its account may read" in (problem(jobs) or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
async def test_root_s_reader_is_the_job_s_account(
    outputs: LiveOutputs, running: StartRun, jobs: Jobs
) -> None:
    await running(user="nobody")
    await watched(outputs, jobs)
    assert seen(jobs) == {1: "begun\n"}
    (known,) = outputs._readers.values()
    program = Process.find(known[2]._process.pid)  # type: ignore[attr-defined]
    assert program is not None and program.owner == pwd.getpwnam("nobody").pw_uid


class _OfPart(SignalRights):
    """The rights of an agent that is not root and has a privileged part."""

    how = "root part"


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivilegedClient]:
    """The agent's privileged part; jobs that start after it have a job's environment."""
    monkeypatch.setenv("_CONDOR_SCRATCH_DIR", "/x")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            privilegedpart._serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    made = PrivilegedClient(ours, pid)
    yield made
    made.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
async def test_part_that_keeps_root_opens_the_files_for_the_agent(
    agent: WatchingHooks, part: PrivilegedClient, running: StartRun, folder: Path
) -> None:
    outputs = LiveOutputs(agent.context.session, agent.runs, partial(open_as_user, _OfPart(part)))
    job = await running(user="nobody")
    # now only the job's account may enter the folder
    folder.chmod(0o700)
    os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    await watched(outputs, agent)
    assert seen(agent) == {1: "begun\n"}
    (known,) = outputs._readers.values()
    program = Process.find(known[2]._process.pid)  # type: ignore[attr-defined]
    assert program is not None and program.owner == os.geteuid()
    (folder / "end").touch()
    await asyncio.to_thread(until, lambda: not job.alive)
    await outputs.round()
    assert seen(agent) == {1: "begun\nover\n", 2: "why\n"}
    assert outputs._readers == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
@pytest.mark.parametrize("closed", ["unreadable", "nowhere"])
async def test_part_that_keeps_root_opens_nothing_that_the_account_may_not_read(
    agent: WatchingHooks, part: PrivilegedClient, running: StartRun, folder: Path, closed: str
) -> None:
    command = JOB if closed == "unreadable" else ["sh", "-c", "echo begun; exec sleep 1000 > /dev/null 2>&1"]
    job = await running(command, user="nobody")
    await asyncio.to_thread(until, lambda: closed == "unreadable" or b"sleep" in _command(job))
    for name in ("out", "err"):
        (folder / name).chmod(0o200)
    outputs = LiveOutputs(agent.context.session, agent.runs, partial(open_as_user, _OfPart(part)))
    await watched(outputs, agent)
    assert seen(agent) == {}
    assert "is a file that its account may read" in (problem(agent) or "")


def _command(job: Process) -> bytes:
    return Path(f"/proc/{job.pid}/comm").read_bytes()


async def test_files_of_one_account_that_do_not_open_keep_no_other_account_s_waiting() -> None:
    opens = threading.Event()
    asked = []

    class Part:
        def open(self, path: Path, uid: int) -> int:
            asked.append(uid)
            if uid == 1:
                opens.wait()
            return uid

        def close(self) -> None:
            pass

    rights = SignalRights(cast(PrivilegedClient, Part()))
    many = [asyncio.create_task(rights.open(Path("/x"), 1)) for _ in range(100)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        assert await rights.open(Path("/x"), 2) == 2
    assert asked.count(1) <= 1
    opens.set()
    assert await asyncio.gather(*many) == [1] * 100
    rights.close()


async def test_one_file_that_does_not_answer_leaves_no_other_open(folder: Path) -> None:
    (folder / "out").touch()
    opened = []

    class Part:
        def open_output(self, key: str, uid: int, stream: int) -> int:
            if stream == 2:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            opened.append(os.open(folder / "out", os.O_RDONLY))
            return opened[0]

    me = Process.find(os.getpid())
    assert me is not None
    with pytest.raises(TimeoutError):
        await SignalRights(cast(PrivilegedClient, Part())).open_output(me, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
