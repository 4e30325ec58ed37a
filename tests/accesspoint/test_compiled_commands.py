"""HTCondor's commands as the compiled program: the access point runs some, and Python runs the rest.

A stand-in replaces the Python command beside the program and prints its arguments: the accounts of the tests
cannot read this checkout's Python.
"""

import contextlib
import fcntl
import grp
import os
import pwd
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork import __version__
from fetchwork.accesspoint import command, commanding
from fetchwork.condor import directory as commands_directory
from fetchwork.process import Process
from tests.accesspoint.commands import SLEEP, condor
from tests.accesspoint.point import AccessPoint, as_account
from tests.conftest import WITHOUT_COMPILER, Connect
from tests.hooks.conftest import SANITIZED
from tests.support.waiting import PATIENCE_S, until

STAND_IN = """\
#!/bin/sh
echo "python $# $*"
echo "key ${FETCHWORK_SUBMISSION_KEY:-none}" >&2
exit 7
"""
NAMES = (
    "condor_q",
    "condor_submit",
    "condor_rm",
    "condor_hold",
    "condor_history",
    "condor_wait",
    "condor_qedit",
    "condor_prio",
    "fetchwork",
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def programs(public_directory: Callable[[], Path]) -> Path:
    """The directory of the commands, compiled with the sanitizers."""
    if shutil.which("cc") is None:
        pytest.skip(WITHOUT_COMPILER)
    folder = public_directory()
    commands_directory.compile_command(folder / "condor-command", SANITIZED)
    (folder / "condor-command.py").write_text(STAND_IN)
    (folder / "condor-command.py").chmod(0o755)
    for name in NAMES:
        (folder / name).symlink_to("condor-command")
    return folder


def identity(account: str, gid: int | None = None) -> dict[str, Any]:
    entry = pwd.getpwnam(account)
    return {"user": entry.pw_uid, "group": entry.pw_gid if gid is None else gid, "extra_groups": []}


@pytest.fixture
def start(programs: Path, point: AccessPoint) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command as an account."""
    started: list[subprocess.Popen[str]] = []

    def start(
        account: str,
        *words: str,
        gid: int | None = None,
        environment: dict[str, str] | None = None,
        **how: Any,
    ) -> subprocess.Popen[str]:
        named = {"PATH": "/usr/bin:/bin", "FETCHWORK_ACCESS_POINT": str(point.socket), **(environment or {})}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(
            [programs / words[0], *words[1:]],
            **{**streams, "cwd": "/", **how, **identity(account, gid)},
            env=named,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[str]]) -> Run:
    """Runs a command to its end."""

    def run(account: str, *words: str, stdin: str = "", **how: Any) -> subprocess.CompletedProcess[str]:
        process = start(account, *words, **how)
        out, err = process.communicate(stdin, timeout=PATIENCE_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return run


def answer(ended: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return ended.returncode, ended.stdout, ended.stderr


def commands_run(point: AccessPoint) -> int:
    return int(point.status()["commands"])


#: times in tables and ads
TIMES = re.compile(r"\d\d:\d\d:\d\d|\d+\+\d\d|(?<=ServerTime = )\d+")

QUESTIONS = [
    ("condor_q",),
    ("condor_q", "-nobatch"),
    ("condor_q", "-long", "1.1"),
    ("condor_q", "1.0", "-af:jh", "JobStatus", "Cmd", "Args"),
    ("condor_q", "-json", "-attributes", "ClusterId,ProcId", "-constraint", 'regexp("slee", Cmd)'),
    ("condor_q", "-totals", "-allusers"),
    ("condor_q", "-constraint", "this is none"),
    ("condor_q", "-nosuchoption"),
    ("condor_q", "-help"),
    ("condor_q", "-version"),
    ("condor_q", "-format", "%d.", "ClusterId", "-format", "%s\\n", "Owner"),
    ("condor_q", "-run"),
    ("condor_q", "-hold"),
    ("condor_q", "-jobads", "/no/such"),
    ("condor_history", "-limit", "2"),
    ("condor_history", "1", "-af", "JobStatus"),
    ("condor_hold", "99.0"),
    ("condor_hold", "nosuchuser"),
    ("condor_rm",),
    ("condor_submit", "/no/such.sub"),
    ("condor_submit", "-nosuchoption"),
]


def test_it_prints_what_the_command_in_python_prints(point: AccessPoint, run: Run) -> None:
    condor(point, "nobody", "condor_submit", stdin=SLEEP.format(2))
    condor(point, "nobody", "condor_submit", stdin=SLEEP.format(1))
    condor(point, "nobody", "condor_hold", "1.0")
    condor(point, "nobody", "condor_rm", "2.0")
    before = commands_run(point)
    for words in QUESTIONS:
        in_python = [TIMES.sub("", str(part)) for part in condor(point, "nobody", *words)]
        compiled = [TIMES.sub("", str(part)) for part in answer(run("nobody", *words))]
        assert compiled == in_python, words
    assert commands_run(point) == before + len(QUESTIONS)


def test_it_is_fetchwork_too(point: AccessPoint, run: Run) -> None:
    submitted = run("nobody", "fetchwork", "submit", "-", stdin=SLEEP.format(2))
    assert answer(submitted) == (0, "2 job(s) submitted to cluster 1.\n", "")
    assert answer(run("nobody", "fetchwork", "q", "-af:j", "Owner")) == (0, "1.0 nobody\n1.1 nobody\n", "")
    assert answer(run("nobody", "fetchwork", "hold", "1.1")) == (0, "Job 1.1 held\n", "")
    assert answer(run("nobody", "fetchwork", "release", "1.0")) == (
        1, "", "\nJob 1.0 not held to be released\n",
    )  # fmt: skip
    assert run("nobody", "fetchwork", "rm", "1").returncode == 0
    assert answer(run("nobody", "fetchwork", "history", "-limit", "1", "-af", "JobStatus"))[:2] == (0, "3\n")
    wrong = run("nobody", "fetchwork", "q", "-nosuchoption")
    assert wrong.returncode == 2 and wrong.stderr.startswith("fetchwork: error: unrecognized argument")
    assert commands_run(point) == 7
    # commands that may take long, or do not ask the queue, are left to Python
    for words in (("wait", "1"), ("events",), ("db", "status"), ()):
        ended = run("nobody", "fetchwork", *words)
        assert ended.returncode == 7 and ended.stdout.endswith(" ".join(("/fetchwork", *words)) + "\n")


def test_what_it_changes_is_changed_once(point: AccessPoint, run: Run, directory: Path) -> None:
    assert answer(run("nobody", "condor_submit", stdin=SLEEP.format(2))) == (
        0, "Submitting job(s)..\n2 job(s) submitted to cluster 1.\n",
        "",
    )  # fmt: skip
    description = directory / "x.sub"
    description.write_text("executable = /bin/sleep\nqueue $(number:1)\n")
    ended = run("nobody", "condor_submit", "-terse", "number=3", "x.sub", cwd=directory)
    assert answer(ended) == (0, "2.0 - 2.2\n", "")
    assert answer(run("nobody", "condor_hold", "2.1")) == (0, "Job 2.1 held\n", "")
    assert answer(run("nobody", "condor_qedit", "2.1", "Foo", "7")) == (
        0,
        'Set attribute "Foo" for 1 matching jobs.\n',
        "",
    )
    assert answer(run("nobody", "condor_rm", "1", "2.0"))[0] == 0
    assert run("nobody", "condor_q", "-af:j", "JobStatus", "Foo").stdout == "2.1 5 7\n2.2 1 undefined\n"
    # nobody else's
    assert run("daemon", "condor_q", "2.1", "-af", "Foo").stdout == ""
    assert run("daemon", "condor_rm", "2").returncode == 1


def test_the_command_has_the_directory_environment_and_mask_of_who_asks(
    point: AccessPoint, run: Run, directory: Path
) -> None:
    place = directory / "place"
    place.mkdir()
    place.chmod(0o777)
    (place / "x.sub").write_text("executable = /bin/sleep\narguments = $ENV(WORD)\nlog = it.log\nqueue\n")
    ended = run(
        "nobody", "condor_submit", "x.sub",
        cwd=place,
        environment={"WORD": "42", "TZ": "Asia/Tokyo"},
        umask=0o027,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert run("nobody", "condor_q", "1.0", "-af", "Args", "Iwd").stdout == f"42 {place}\n"
    assert (place / "it.log").stat().st_mode & 0o777 == 0o640
    run("nobody", "condor_submit", "-dry-run", "ads", "x.sub", cwd=place, umask=0o077)
    assert (place / "ads").stat().st_mode & 0o777 == 0o600 and (place / "ads").stat().st_uid == 65534
    # times of day are printed in the client's time zone
    shown = {
        zone: re.findall(r"^ +1\.0 .* (\d\d:\d\d) ", out, re.MULTILINE)
        for zone in ("UTC", "Asia/Tokyo")
        if (out := run("nobody", "condor_q", "-nobatch", environment={"TZ": zone}).stdout)
    }
    assert len(shown["UTC"]) == 1 and shown["UTC"] != shown["Asia/Tokyo"], shown


def test_it_reads_with_the_rights_of_the_process_that_asks(run: Run, directory: Path) -> None:
    secret, shared = directory / "secret.sub", directory / "shared.sub"
    for path in (secret, shared):
        path.write_text(SLEEP.format(1))
        path.chmod(0o640)
    os.chown(shared, 0, grp.getgrnam("daemon").gr_gid)
    refused = run("nobody", "condor_submit", str(secret))
    assert answer(refused) == (
        1, "",
        f"\nERROR: Failed to open command file ({secret}) (Permission denied)\n",
    )  # fmt: skip
    assert run("nobody", "condor_submit", str(shared)).returncode == 1
    # a group that the account is not in, but the process is (newgrp)
    gid = grp.getgrnam("daemon").gr_gid
    assert run("nobody", "condor_submit", str(shared), gid=gid).returncode == 0


def children(point: AccessPoint) -> set[int]:
    """The processes that the zygote has forked."""
    assert point.process is not None
    access_point = Process.find(point.process.pid)
    assert access_point is not None
    return {child.pid for zygote in access_point.children() for child in zygote.children()}


def test_an_accounts_commands_are_run_one_after_the_other_by_one_child(point: AccessPoint, run: Run) -> None:
    ask = ("condor_q", "1.0", "-af", "ClusterId")
    run("nobody", *ask)
    (child,) = children(point)
    for _ in range(3):
        assert answer(run("nobody", *ask)) == (0, "", "")
    assert children(point) == {child}
    # another account has its own child, and so has an account with other groups
    run("daemon", *ask)
    run("nobody", *ask, gid=grp.getgrnam("daemon").gr_gid)
    assert len(children(point)) == 3 and child in children(point)
    # a child that was killed while idle is replaced unnoticed
    point.kill_children("nobody")
    assert answer(run("nobody", *ask)) == (0, "", "")


def restarted(point: AccessPoint, *statements: str) -> None:
    """Start the access point anew, with these statements before its program."""
    point.stop()
    point.program = "\n".join(("from fetchwork.accesspoint import children", *statements, point.program))
    point.start()


def test_a_child_ends_after_so_many_commands(point: AccessPoint, run: Run) -> None:
    restarted(point, "children.MOST_USES = 2")
    ask = ("condor_q", "1.0", "-af", "ClusterId")
    used: list[set[int]] = []
    for _ in range(2):
        assert answer(run("nobody", *ask)) == (0, "", "")
        used.append(children(point))
        assert answer(run("nobody", *ask)) == (0, "", "")
        until(lambda: not children(point), "the child's end")
    assert len(used[0]) == len(used[1]) == 1 and used[0] != used[1]


def test_a_child_that_is_idle_for_long_ends(point: AccessPoint, run: Run) -> None:
    restarted(point, "children.IDLE_S, children.SWEEP_S = 0.0, 0.05")
    assert answer(run("nobody", "condor_q", "1.0", "-af", "ClusterId")) == (0, "", "")
    until(lambda: not children(point), "the child's end")


# only an executed zygote imports sitecustomize
@pytest.mark.executed
def test_a_child_that_has_grown_too_much_runs_no_further_command(
    point: AccessPoint, run: Run, tmp_path: Path
) -> None:
    # the zygote has the path of the access point
    (tmp_path / "sitecustomize.py").write_text(
        "import fetchwork.accesspoint.command as command\ncommand._MORE_MEMORY = -(1 << 40)\n"
    )
    restarted(point, f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    for _ in range(2):
        assert answer(run("nobody", "condor_q", "1.0", "-af", "ClusterId")) == (0, "", "")
        until(lambda: not children(point), "the child's end")


def test_a_command_leaves_nothing_to_the_next_one(point: AccessPoint, run: Run, directory: Path) -> None:
    def submit(name: str, **how: Any) -> Path:
        place = directory / name
        place.mkdir()
        place.chmod(0o777)
        text = "executable = /bin/sleep\narguments = $ENV(WORD:none)\nlog = it.log\nqueue\n"
        assert run("nobody", "condor_submit", stdin=text, cwd=place, **how).returncode == 0
        return place / "it.log"

    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    named = {"WORD": "42", "TZ": "Asia/Tokyo", "TRACEPARENT": parent}
    first = submit("first", environment=named, umask=0o077)
    run_by = children(point)
    second = submit("second")
    table = ("condor_q", "-nobatch", "2.0")
    shown, in_python = run("nobody", *table).stdout, condor(point, "nobody", *table)[1]
    assert children(point) == run_by
    assert [log.stat().st_mode & 0o777 for log in (first, second)] == [0o600, 0o644]
    assert run("nobody", "condor_q", "-af", "Args").stdout == "42\nnone\n"
    assert run("nobody", "condor_q", "-af", "TraceParent").stdout == f"{parent}\nundefined\n"
    of_the_job = re.compile(r"^ *2\.0 .*?\d\d:\d\d ", re.MULTILINE)
    assert of_the_job.findall(shown) == of_the_job.findall(in_python) != []
    # output that a full disk refused does not reach the next command's reader
    with Path("/dev/full").open("w") as full:
        assert run("nobody", "condor_q", "-help", stdout=full).returncode == 1
    assert answer(run("nobody", "condor_q", "1.0", "-af", "Args")) == (0, "42\n", "")


@pytest.mark.parametrize(
    "words", [["condor_q", "-long"], ["condor_q", "-nobatch"], ["condor_history", "-json"]], ids=" ".join
)
def test_a_reader_that_has_enough_is_no_error(
    point: AccessPoint, run: Run, start: Callable[..., subprocess.Popen[str]], words: list[str]
) -> None:
    run("nobody", "condor_submit", stdin=SLEEP.format(2000))
    if words[0] == "condor_history":
        run("nobody", "condor_rm", "1")
    reader, writer = os.pipe()
    process = start("nobody", *words, stdout=writer)
    os.close(writer)
    assert os.read(reader, 10)
    os.close(reader)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stderr is not None and process.stderr.read() == ""


def begun(
    start: Callable[..., subprocess.Popen[str]], account: str = "nobody"
) -> tuple[subprocess.Popen[str], int]:
    """A condor_submit that reads its description, and the writing end of its pipe."""
    reader, writer = os.pipe()
    process = start(account, "condor_submit", stdin=reader)
    os.close(reader)
    # more than a pipe holds, so a process reads it
    os.write(writer, b"#" * 65000 + b"\n")
    os.write(writer, b"#" * 65000 + b"\n")
    return process, writer


def is_closed(writer: int) -> bool:
    """Whether the reading end of the pipe is closed."""
    try:
        os.write(writer, b"#")
    except BrokenPipeError:
        return True
    return False


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGKILL,
        *(pytest.param(number, marks=pytest.mark.all) for number in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_a_signal_that_ends_it_ends_the_command(
    start: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    process, writer = begun(start)
    process.send_signal(number)
    # as the command in Python
    assert process.wait(timeout=PATIENCE_S) == (130 if number == signal.SIGINT else -number)
    until(lambda: is_closed(writer), "the end of the command")
    os.close(writer)


def test_a_command_whose_access_point_dies_is_not_begun_anew_where_it_has_read(
    point: AccessPoint, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process, writer = begun(start)
    point.kill()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert err == (
        "condor_submit: the access point ended before the command did: what it has done so far, it has done\n"
    )
    until(lambda: is_closed(writer), "the end of the command")
    os.close(writer)
    assert condor(point.start(), "nobody", "condor_q", "-allusers", "-af", "ClusterId")[1] == ""


def test_a_relative_change_whose_process_dies_is_not_done_twice(
    point: AccessPoint, run: Run, start: Callable[..., subprocess.Popen[str]], connect: Connect
) -> None:
    run("nobody", "condor_submit", stdin=SLEEP.format(1))
    holder, looker = connect(autocommit=False), connect()
    # the change waits for this lock
    holder.execute("SELECT FROM fetchwork.job FOR UPDATE")
    process = start("nobody", "condor_prio", "+5", "1.0")
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    until(lambda: looker.execute(waits).fetchone() == (1,), "the change")
    point.kill_children("nobody")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("condor_prio: the access point ended before the command did")
    holder.rollback()


def test_a_submission_whose_access_point_dies_goes_on_in_python_under_its_key(
    point: AccessPoint, programs: Path, start: Callable[..., subprocess.Popen[str]], directory: Path
) -> None:
    # the description reads its items from a pipe: the submission waits for it
    items = directory / "items"
    os.mkfifo(items, 0o666)
    items.chmod(0o666)
    description = directory / "x.sub"
    description.write_text(f"executable = /bin/sleep\narguments = $(word)\nqueue word from {items}\n")
    process = start("nobody", "condor_submit", str(description))
    with items.open("w"):
        point.kill()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 7
    assert out == f"python 2 {programs / 'condor_submit'} {description}\n"
    assert re.fullmatch(r"key [0-9a-f]{32}\n", err)


def test_a_key_that_was_used_makes_no_second_cluster(point: AccessPoint) -> None:
    program = (
        "import os, sys\n"
        "from fetchwork.condor import process\n"
        "sys.argv = ['/x/condor-command.py', '/x/condor_submit', '-terse']\n"
        "process.main()\n"
    )

    def submit() -> str:
        environment = {
            **os.environ,
            "FETCHWORK_ACCESS_POINT": str(point.socket),
            "FETCHWORK_OWNER": "nobody",
            "FETCHWORK_SUBMISSION_KEY": "0" * 32,
        }
        done = subprocess.run(
            ["python3", "-c", program],
            input="executable = /bin/sleep\ngetenv = true\nqueue\n",
            env=environment,
            executable=shutil.which("python3"),
            check=False,
            capture_output=True,
            text=True,
        )
        # a python3 without the package's dependencies runs this
        assert not done.stderr, done.stderr
        return done.stdout

    assert submit() == submit() == "1.0 - 1.0\n"
    # no job and no submission of a job may have this variable
    assert "SUBMISSION_KEY" not in condor(point, "nobody", "condor_q", "1.0", "-af", "Environment")[1]


IN_PYTHON: list[dict[str, Any]] = [
    {"environment": {"FETCHWORK_ACCESS_POINT": "none"}},
    {"environment": {"FETCHWORK_ACCESS_POINT": "/no/such"}},
    {"environment": {"FETCHWORK_ACCESS_POINT": "/" + "x" * 200}},
    {"words": ("condor_wait", "/some.log")},
    {"words": ("condor_submit", "/dev/fd/63")},
    {"account": "root"},
    {"close": 0},
    {"close": 1},
]


@pytest.mark.parametrize("case", IN_PYTHON, ids=lambda case: next(iter(case)))
def test_what_is_not_run_there_is_run_in_python(point: AccessPoint, run: Run, case: dict[str, Any]) -> None:
    closed = case.get("close")
    how = {"preexec_fn": lambda: os.close(closed)} if closed is not None else {}
    words = case.get("words", ("condor_q", "-af", "a b"))
    ended = run(case.get("account", "nobody"), *words, environment=case.get("environment"), **how)
    assert ended.returncode == 7
    if closed != 1:
        assert ended.stdout.split()[1:2] == [str(len(words))] and ended.stdout.endswith(
            " ".join(words[1:]) + "\n"
        )


def test_a_database_that_is_named_counts_before_the_usual_access_point(run: Run, programs: Path) -> None:
    ended = subprocess.run(
        [programs / "condor_q"],
        env={"PGHOST": "there"},
        capture_output=True,
        text=True,
        check=False,
        **identity("nobody"),
    )
    assert answer(ended) == (7, f"python 1 {programs}/condor_q\n", "key none\n")


def test_a_description_that_is_typed_is_for_python(start: Callable[..., subprocess.Popen[str]]) -> None:
    main, terminal = os.openpty()
    process = start("nobody", "condor_submit", stdin=terminal)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 7 and out.startswith("python 1 ")
    os.close(main)
    os.close(terminal)


def test_a_table_is_as_wide_as_the_terminal(run: Run, start: Callable[..., subprocess.Popen[str]]) -> None:
    run("nobody", "condor_submit", "executable=/bin/sleep", f"arguments={'x' * 200}", stdin="queue\n")
    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 90, 0, 0))
    process = start("nobody", "condor_q", "-nobatch", stdout=terminal)
    assert process.wait(timeout=PATIENCE_S) == 0
    os.close(terminal)
    # the output arrives in as many parts as it was written in, and ends with an error
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(main, 65536):
            shown += part
    os.close(main)
    (line,) = [line for line in shown.decode().splitlines() if "xxx" in line]
    assert len(line) <= 90


@pytest.mark.parametrize("point", [commanding.PATIENCE_S], indirect=True)
def test_commands_of_one_account_that_stand_still_stop_nobody_elses(
    run: Run, start: Callable[..., subprocess.Popen[str]]
) -> None:
    standing = [begun(start) for _ in range(commanding.MOST_EACH)]
    assert answer(run("daemon", "condor_q", "1", "-af", "ClusterId")) == (0, "", "")
    # nor does the account keep it for ever
    assert run("nobody", "condor_q", "1", "-af", "ClusterId").returncode == 7
    process, writer = standing.pop()
    os.write(writer, b"\nexecutable = /bin/true\nqueue\n")
    os.close(writer)
    assert process.wait(timeout=PATIENCE_S) == 0
    # the child that ran it for the access point ends a moment after it has answered
    until(lambda: run("nobody", "condor_q", "1", "-af", "ClusterId").stdout == "1\n", "its place")
    for _, writer in standing:
        os.close(writer)


def test_more_commands_than_run_at_once_wait_their_turn(
    run: Run, start: Callable[..., subprocess.Popen[str]], point: AccessPoint
) -> None:
    run("nobody", "condor_submit", stdin=SLEEP.format(1))
    many = [start("nobody", "condor_q", "1.0", "-af", "JobStatus") for _ in range(4 * commanding.MOST_EACH)]
    assert [process.communicate(timeout=PATIENCE_S)[0] for process in many] == ["1\n"] * len(many)


def test_no_bytes_that_the_child_gets_do_it_harm(point: AccessPoint, run: Run) -> None:
    dice = random.Random(14)
    fields = [__version__, "k" * 32, "18", "1", "1", "1", "1", "condor_q", "A=1", ""]
    good = "\0".join(fields).encode()
    requests = [command.MAGIC + struct.pack(">I", len(good)) + good]
    while len(requests) < 40:
        data = bytearray(requests[0])
        for _ in range(dice.choice((1, 2, 8))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        requests.append(bytes(data[: dice.choice((len(data), dice.randrange(len(data))))]))

    def ask() -> list[str]:
        answers = []
        for request in requests:
            with socket.socket(socket.AF_UNIX) as link, open(os.devnull) as null:
                link.settimeout(PATIENCE_S)
                link.connect(f"{point.socket}{commanding.SUFFIX}")
                number = dice.choice((0, 1, 4, 7))
                socket.send_fds(link, [request], [null.fileno()] * number) if number else link.sendall(
                    request
                )
                link.shutdown(socket.SHUT_WR)
                try:
                    answers.append(link.recv(10).decode())
                except ConnectionResetError:
                    answers.append("")
        return answers

    assert set(as_account("nobody", ask)) <= {"", "p"}
    assert run("nobody", "condor_q", "1", "-af", "ClusterId").returncode == 0


@pytest.mark.parametrize(
    ("version", "count"), [(__version__, "0"), (__version__, "-1"), (__version__, "99"), ("0.0.9", "1")]
)
def test_a_request_that_is_malformed_or_of_another_version_is_for_python(
    point: AccessPoint, version: str, count: str
) -> None:
    root = Path("/").stat()
    where = (Path("/proc/self/ns/mnt").stat().st_ino, root.st_dev, root.st_ino)
    fields = [version, "k" * 32, "18", *map(str, where), count, "condor_q", "A=1", ""]
    body = "\0".join(fields).encode()

    def ask() -> str:
        with socket.socket(socket.AF_UNIX) as link, open(os.devnull, "r+b") as null:
            link.settimeout(PATIENCE_S)
            link.connect(f"{point.socket}{commanding.SUFFIX}")
            head = command.MAGIC + struct.pack(">I", len(body))
            root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
            socket.send_fds(link, [head + body], [null.fileno()] * 3 + [root])
            return link.recv(10).decode()

    assert as_account("nobody", ask) == "p"


def test_no_answer_does_the_program_harm(programs: Path, directory: Path) -> None:
    dice = random.Random(11)
    answers = [b"", b"p", b"b", b"bu", b"s", b"bus", b"bus\x05", b"s\x00", b"bbuu", b"x", b"ux"]
    answers += [bytes(dice.choice(b"bups\0\xff") for _ in range(dice.randrange(9))) for _ in range(40)]
    path = directory / "false.sock.commands"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen()

        def answer_all() -> None:
            for one in answers:
                link, _ = listener.accept()
                with link:
                    assert link.recv(1 << 20)[:4] == command.MAGIC
                    link.sendall(one)

        thread = threading.Thread(target=answer_all)
        thread.start()
        for one in answers:
            ended = subprocess.run(
                [programs / "condor_q"],
                env={"FETCHWORK_ACCESS_POINT": str(path).removesuffix(".commands")},
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
                **identity("nobody"),
            )
            known = re.match(rb"[bu]*s(.)", one, re.DOTALL)
            used = b"u" in (re.match(rb"[bu]*", one) or [b""])[0]
            expected = known[1][0] if known else 1 if used else 7
            assert ended.returncode == expected, (one, ended)
        thread.join()


def test_the_directory_is_made_once_and_again_for_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("cc") is None:
        pytest.skip(WITHOUT_COMPILER)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    program = commands_directory.made() / "condor-command"
    assert program.read_bytes()[:4] == b"\x7fELF"
    made = program.stat().st_mtime_ns
    assert commands_directory.made() == program.parent and program.stat().st_mtime_ns == made
    # without a compiler the script is used until there is a compiler
    monkeypatch.setenv("CC", "no-such-compiler")
    commands_directory.made()
    assert program.read_text() == (program.parent / "condor-command.py").read_text()
    monkeypatch.delenv("CC")
    commands_directory.made()
    assert program.read_bytes()[:4] == b"\x7fELF"
    # a compiler that fails is not run each time
    monkeypatch.setenv("CC", "false")
    shutil.rmtree(program.parent)
    commands_directory.made()
    made = program.stat().st_mtime_ns
    commands_directory.made()
    assert program.stat().st_mtime_ns == made and program.read_text().startswith("#!")
