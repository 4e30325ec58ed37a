"""Few and small files within the hooks' own requests: the compiled hook treats them as the hook in Python
does, or leaves them to that one.
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from fetchwork.hook.wire import Reply, Request, encode_reply
from fetchwork.sandbox import inline, outputs
from fetchwork.sandbox.leave import read_notes
from tests.support.there import there

from .conftest import Behave, Hooks, StandIn

AD = {"Out": "/home/out", "Err": "/home/err", "WhenToTransferOutput": "ON_EXIT", "Cmd": "/bin/cat"}
STARTS = b"""\
Cmd = "condor_exec.exe"
FetchWorkRunId = 7
FetchWorkSandbox = true
FetchWorkToken = "6f0c0fd6-8ba1-4b0e-8a7b-4d7a1a8f7a55"
In = "in"
Out = "_condor_stdout"
"""
ENDS = STARTS + b"ExitCode = 0\nJobPid = 17\n"
SCRIPT = b"#!/bin/sh\necho hello\n"
FILES = [("condor_exec.exe", 0o644, SCRIPT), ("in", 0o640, b"some\nbytes\0"), ("empty", 0o600, b"")]


@pytest.fixture
def sandbox(hooks: Hooks, language: str) -> Path:
    if language != "compiled":
        pytest.skip("the hook in Python asks for files one by one")
    path = hooks.home / "dir_1"
    path.mkdir()
    return path


def brings(files: list[tuple[str, int, bytes]] = FILES, ad: dict[str, Any] = AD, **more: Any) -> Reply:
    section = there(inline.encode_inputs(ad, 60.0, files, executable=more.pop("executable", True)))
    return Reply(b"X = 1\n" + section, files=len(section), **more)


def answering(answers: dict[str, Reply]) -> Behave:
    """An agent that knows these requests."""

    def behave(agent: StandIn, connection: socket.socket) -> None:
        while True:
            agent.read(connection)
            unknown = Reply(code="denied", message="not now")
            connection.sendall(encode_reply(answers.get(agent.requests[-1].name, unknown)))

    return behave


def names(agent: StandIn) -> list[str]:
    return [request.name for request in agent.requests]


def prepared(hooks: Hooks, sandbox: Path, reply: Reply) -> StandIn:
    started = hooks.agent(answering({"prepare_job": reply}))
    done = hooks.run("prepare_job", stdin=STARTS, cwd=sandbox)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    cmd = f'Cmd = "{sandbox}/condor_exec.exe"\n'.encode()
    assert done.stdout == cmd + b"X = 1\n"
    return started


def exited(hooks: Hooks, sandbox: Path, agent: StandIn) -> Request:
    """The requests of JOB_EXIT."""
    before = len(agent.requests)
    hooks.run("job_exit", "exit", stdin=ENDS, cwd=sandbox)
    return agent.requests[before]


def left(request: Request) -> dict[str, tuple[int, bytes]]:
    assert request.name == "job_left"
    assert request.arg == "exit"
    ad = len(request.body) - request.files
    assert request.body[:ad] == ENDS
    return {name: (mode, data) for name, mode, data in inline.decode_outputs(request.body[ad:])}


def test_inputs_that_come_with_the_answer_are_written(hooks: Hooks, sandbox: Path) -> None:
    # of two files with a name the later wins, over the starter's files, and through no link
    (sandbox / "in").symlink_to(hooks.home / "elsewhere")
    started = prepared(hooks, sandbox, brings([("in", 0o600, b"first"), *FILES]))
    assert names(started) == ["prepare_job"]
    assert started.requests[0].inline == inline.MAX_INPUT
    assert not (hooks.home / "elsewhere").exists()
    for name, mode, data in FILES:
        path = sandbox / name
        assert path.read_bytes() == data
        assert path.stat().st_mode & 0o777 == (0o755 if name == "condor_exec.exe" else mode)
    notes = there(read_notes(str(sandbox)))
    assert notes["ad"] == AD
    assert notes["before"] == {
        name: value for name, value in outputs.catalogue(str(sandbox)).items() if name != ".fetchwork.files"
    }
    assert (sandbox / ".fetchwork.files").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"X = 1\n"),
        Reply(code="unavailable", message="the files of this job come one by one"),
        brings([("a", 0o644, b""), ("condor_exec.exe", 0o644, b"#!/no/such/interpreter\n")]),
        brings([], executable=True),
        Reply(b"X = 1\n3 0\n{}", files=6),
        Reply(b"2 0\n{}420 1 ../up\nx", files=18),
        Reply(b"2 0\n{}420 1 a/b\nx", files=17),
        Reply(b'2 0\n{}420 1 a"b\nx', files=17),
        Reply(b"2 0\n{}420 2 a\nx", files=15),
        Reply(b"2 0\n{}420 1 a", files=13),
        Reply(b"2 0\n{}x", files=7),
        Reply(b"2 0\n{}420 1 " + b"a" * 300 + b"\nx", files=313),
    ],
)
def test_what_is_not_plain_is_left_to_python_which_asks_anew(
    hooks: Hooks, sandbox: Path, reply: Reply
) -> None:
    started = hooks.agent(answering({"prepare_job": reply}))
    done = hooks.run("prepare_job", stdin=STARTS, cwd=sandbox)
    assert names(started)[:2] == ["prepare_job", "prepare_job"]
    assert (started.requests[0].inline, started.requests[1].inline) == (inline.MAX_INPUT, 0)
    assert done.returncode != 0 or b"HookStatusCode" in done.stdout
    assert not (sandbox / ".fetchwork.files").exists()
    assert not (hooks.home / "up").exists()


def test_a_start_that_is_refused_is_refused(hooks: Hooks, sandbox: Path) -> None:
    refused = Reply(b"HookStatusCode = 350\n", exit=1, stderr="run 7 is over")
    started = hooks.agent(answering({"prepare_job": refused}))
    done = hooks.run("prepare_job", stdin=STARTS, cwd=sandbox)
    assert (done.returncode, done.stdout) == (1, b"HookStatusCode = 350\n")
    assert names(started) == ["prepare_job"]
    assert list(sandbox.iterdir()) == []


#: a job's ad, and its sandbox afterwards, beside the usual files
LEFT: dict[str, tuple[dict[str, object], list[str]]] = {
    "new and changed": ({}, ["in", "new", "replaced"]),
    "listed": ({"TransferOutput": "new, empty"}, ["new", "empty"]),
    "nothing": ({"TransferOutput": ""}, []),
    "on exit or evict": ({"WhenToTransferOutput": "ON_EXIT_OR_EVICT"}, ["in", "new", "replaced"]),
    "remapped": ({"TransferOutputRemaps": "new = /home/other"}, ["in", "new", "replaced"]),
}


def work(sandbox: Path) -> None:
    """The job's actions in its sandbox."""
    (sandbox / "_condor_stdout").write_bytes(b"said")
    (sandbox / "new").write_bytes(b"new\n")
    (sandbox / "new").chmod(0o751)
    os.utime(sandbox / "new", ns=(5, 5))
    (sandbox / "in").write_bytes(b"changed")
    (sandbox / "replaced").write_bytes(b"")
    os.utime(sandbox / "replaced", ns=(9, 9))
    (sandbox / "d").mkdir()
    (sandbox / "d/inner").write_bytes(b"inner")
    (sandbox / ".machine.ad").write_bytes(b"A = 1")


@pytest.mark.parametrize("case", LEFT)
def test_what_a_job_leaves_is_what_python_would_choose(hooks: Hooks, sandbox: Path, case: str) -> None:
    ad, expected = LEFT[case]
    started = prepared(hooks, sandbox, brings(ad={**AD, **ad}))
    work(sandbox)
    notes = there(read_notes(str(sandbox)))
    chosen = outputs.Choice({**AD, **ad}, str(sandbox), notes["before"]).choose("success")
    assert chosen.failure is None
    sent = left(exited(hooks, sandbox, started))
    assert sent == {
        name: (one.mode & 0o777, Path(one.path).read_bytes()) for name, one in chosen.files.items()
    }
    assert sorted(sent) == sorted([*expected, "_condor_stdout"])


def test_where_the_agent_takes_it_that_is_all(hooks: Hooks, sandbox: Path) -> None:
    started = hooks.agent(answering({"prepare_job": brings(), "job_left": Reply()}))
    assert hooks.run("prepare_job", stdin=STARTS, cwd=sandbox).returncode == 0
    work(sandbox)
    done = hooks.run("job_exit", "exit", stdin=ENDS, cwd=sandbox)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert names(started) == ["prepare_job", "job_left"]
    assert (sandbox / "new").exists()


@pytest.mark.parametrize(
    "ad",
    [
        {"WhenToTransferOutput": "ON_SUCCESS"},
        {"MaxTransferOutputMB": 1},
        {"OutputDestination": "http://host/"},
        {"TransferOutputRemaps": "new = s3://bucket/new"},
        {"Out": "file:///home/out"},
        {"TransferOutput": "d"},
        {"TransferOutput": "d/inner"},
        {"TransferOutput": "missing"},
        {"TransferPlugins": "x=/plugin"},
        {"WantFTOnCheckpoint": True},
    ],
)
def test_more_than_plain_output_is_parked(hooks: Hooks, sandbox: Path, ad: dict[str, object]) -> None:
    started = prepared(hooks, sandbox, brings(ad={**AD, **ad}))
    work(sandbox)
    assert exited(hooks, sandbox, started).name == "output_plan"


@pytest.mark.parametrize(
    "oddity", ["link", "pipe listed", "name", "large", "many", "notes", "evict", "no end"]
)
def test_what_is_odd_in_a_sandbox_is_parked(hooks: Hooks, sandbox: Path, oddity: str) -> None:
    listed = {"TransferOutput": "pipe"} if oddity == "pipe listed" else {}
    started = prepared(hooks, sandbox, brings(ad={**AD, **listed}))
    work(sandbox)
    args, stdin = ["exit"], ENDS
    match oddity:
        case "link":
            (sandbox / "link").symlink_to("new")
        case "pipe listed":
            os.mkfifo(sandbox / "pipe")
        case "name":
            (sandbox / "caf\u00e9").write_bytes(b"")
        case "large":
            (sandbox / "new").write_bytes(b"x" * (inline.MAX_OUTPUT + 1))
        case "many":
            for n in range(inline.MAX_FILES + 1):
                (sandbox / f"n{n}").write_bytes(b"")
        case "notes":
            (sandbox / ".fetchwork.files").write_text(json.dumps({"easy": "*", "before": {}}))
        case "evict":
            args = ["evict"]
        case "no end":
            stdin = STARTS
    before = len(started.requests)
    hooks.run("job_exit", *args, stdin=stdin, cwd=sandbox)
    asked = [request.name for request in started.requests[before:]]
    assert asked[0] == ("job_exit" if oddity == "no end" else "output_plan")


def test_what_the_agent_cannot_take_is_parked(hooks: Hooks, sandbox: Path) -> None:
    (hooks.home / "spool.outputs").mkdir(mode=0o3733)
    started = prepared(hooks, sandbox, brings())
    work(sandbox)
    hooks.run("job_exit", "exit", stdin=ENDS, cwd=sandbox)
    assert names(started)[1:3] == ["job_left", "output_plan"]
    (manifest,) = (hooks.home / "spool.outputs").glob("*/manifest")
    parked = [one["name"] for one in json.loads(manifest.read_text())["files"]]
    assert sorted(parked) == ["_condor_stdout", "in", "new", "replaced"]
