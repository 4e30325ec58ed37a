"""A hook passes HTCondor's input to the agent, and the agent's answer to HTCondor."""

import csv
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.hook.wire import HOOKS, Reply, encode_reply
from tests.hooks.conftest import Hooks, StandIn
from tests.support.waiting import PATIENCE_S

from .conftest import ADS

CAPTURES = [
    (row["file"], row["argv"])
    for row in csv.DictReader((ADS / "INDEX.tsv").read_text().splitlines(), delimiter="\t")
]
CLOSED = ("reply_fetch", "evict_claim", "update_job_info")
#: the ad of a job that can start
READY = b'Cmd = "/bin/true"\nIwd = "/"\n'
JOB = (ADS / "25.14.1-update_job_info-2-running.ad").read_bytes()


def hook_of(file: str) -> str:
    return next(name for name in HOOKS if f"-{name}" in file)


@pytest.mark.parametrize(("file", "argv"), CAPTURES, ids=[file for file, _ in CAPTURES])
def test_every_captured_ad_reaches_the_agent_as_it_is(hooks: Hooks, file: str, argv: str) -> None:
    stand_in = hooks.agent(Reply())
    name = hook_of(file)
    args = [] if argv == "(none)" else [argv]
    stdin = (ADS / file).read_bytes()
    done = hooks.run(name, *args, stdin=stdin, closed=name in CLOSED, env={"_CONDOR_SLOT": "slot1_2"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    [request] = stand_in.requests
    assert (request.name, request.body, request.keyword, request.arg, request.slot, request.check) == (
        name,
        stdin,
        "FW",
        *(args or [""]),
        "slot1_2",
        "",
    )
    assert 4000 < request.deadline_ms <= 75000


def test_evict_claim_takes_two_ads(hooks: Hooks) -> None:
    stand_in = hooks.agent(Reply())
    stdin = (ADS / "25.14.1-reply_fetch-accept.txt").read_bytes()
    assert hooks.run("evict_claim", stdin=stdin, closed=True).returncode == 0
    assert stand_in.requests[0].body == stdin


@pytest.mark.parametrize("name", HOOKS)
def test_the_answer_is_printed_and_is_the_exit_status(hooks: Hooks, name: str) -> None:
    hooks.agent(Reply(b'Cmd = "/bin/true"\n', exit=3, stderr="a remark"))
    done = hooks.run(name)
    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        b'Cmd = "/bin/true"\n',
        f"fetchwork {name}: a remark\n".encode(),
    )


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_works_with_its_output_closed(hooks: Hooks, name: str) -> None:
    stand_in = hooks.agent(Reply(b"x = 1\n", stderr="nobody reads this"))
    assert hooks.run(name, stdin=JOB, closed=True).returncode == 0
    # the descriptor of the socket must not have been taken for stdout
    assert stand_in.requests[0].body == JOB


def test_a_long_answer_arrives_whole(hooks: Hooks) -> None:
    body = b"".join(b"A%06d = 1\n" % number for number in range(30_000))
    hooks.agent(Reply(body))
    assert hooks.run("fetch_work").stdout == body


@pytest.mark.parametrize("changes", [b"", b'Environment = "A=1"\n', b'A = "-----"\nB = 2\n'])
def test_prepare_job_writes_the_ads_behind_the_changes_over_the_starters(
    hooks: Hooks, tmp_path: Path, changes: bytes
) -> None:
    machine, job = b"Cpus = 2\n" * 20_000, b'Cmd = "/bin/true"\nA = "x -----"\n'
    hooks.agent(Reply(changes + b"-----\n" + machine + b"-----\n" + job))
    (tmp_path / ".machine.ad").touch(0o400)
    (tmp_path / ".job.ad").write_text("before")
    done = hooks.run("prepare_job", stdin=READY, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, changes, b"")
    assert (tmp_path / ".machine.ad").read_bytes() == machine
    assert (tmp_path / ".job.ad").read_bytes() == job
    assert (tmp_path / ".machine.ad").stat().st_mode & 0o777 == 0o644


def test_the_ads_can_be_read_whatever_the_umask_and_whichever_is_missing(
    hooks: Hooks, tmp_path: Path
) -> None:
    hooks.agent(Reply(b"A = 1\n-----\nCpus = 2\n-----\nB = 1\n"))
    (tmp_path / ".job.ad").touch()
    done = hooks.run("prepare_job", stdin=READY, cwd=tmp_path, umask=0o077)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"A = 1\n", b"")
    assert [path.name for path in tmp_path.iterdir()] == [".job.ad"]
    assert (tmp_path / ".job.ad").stat().st_mode & 0o777 == 0o644


def test_prepare_job_makes_no_file_where_the_starter_has_none(hooks: Hooks, tmp_path: Path) -> None:
    hooks.agent(Reply(b"A = 1\n-----\nCpus = 2\n-----\nB = 1\n"))
    (tmp_path / ".job.ad").mkdir()
    done = hooks.run("prepare_job", stdin=READY, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"A = 1\n")
    assert done.stderr.startswith(b"fetchwork prepare_job: cannot write '.job.ad': ")
    assert [path.name for path in tmp_path.iterdir()] == [".job.ad"]


def test_a_long_stdin_arrives_whole(hooks: Hooks) -> None:
    stand_in = hooks.agent(Reply())
    stdin = b'a = "' + b"x" * (8 << 20) + b'"\n'
    assert hooks.run("update_job_info", stdin=stdin).returncode == 0
    assert stand_in.requests[0].body == stdin


def test_the_problem_found_as_the_jobs_user_goes_with_the_request(hooks: Hooks) -> None:
    stand_in = hooks.agent(Reply(b"HookStatusCode = 350\n", exit=1))
    done = hooks.run("prepare_job", stdin=b'Cmd = "/no/such"\nIwd = "/tmp"\n')
    assert (done.returncode, done.stdout) == (1, b"HookStatusCode = 350\n")
    assert (
        stand_in.requests[0].check == "Failed to execute '/no/such': (errno=2: 'No such file or directory')"
    )


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_imports_next_to_nothing(hooks: Hooks, name: str, language: str) -> None:
    hooks.agent(Reply())

    def imported(*command: str) -> set[str]:
        run = subprocess.run(
            ["/usr/bin/python3", "-IS", "-X", "importtime", *command],
            input=JOB,
            capture_output=True,
            check=True,
        )
        lines = run.stderr.decode().splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    allowed = {
        "fetchwork",
        "fetchwork.hookerrors",
        "fetchwork.hook",
        "fetchwork.hook.wire",
        "fetchwork.hook.client",
        "fetchwork.hook.link",
        "_socket",
        "select",
    }
    if name == "prepare_job":
        allowed |= {"fetchwork.hook.jobcheck", "_stat"}
    elif name == "job_exit":
        allowed |= {"fetchwork.hook.siblings"}
    script = hooks.directory / name
    if language == "compiled":
        # its name when there is more to do
        script = script.with_name(f"{name}.py")
        allowed |= {"fetchwork.hook.handover"}
    assert imported(str(script)) - imported("-c", "pass") == allowed


@pytest.mark.parametrize(("file", "argv"), CAPTURES, ids=[file for file, _ in CAPTURES])
def test_a_compiled_hook_starts_no_python_where_the_agent_answers(
    hooks: Hooks, file: str, argv: str, language: str
) -> None:
    if language != "compiled":
        pytest.skip("of the compiled hooks")
    for script in hooks.directory.glob("*.py"):
        script.write_text("#!/bin/false\n")
    hooks.agent(Reply(b"x = 1\n", exit=3, stderr="a remark"))
    args = [] if argv == "(none)" else [argv]
    done = hooks.run(hook_of(file), *args, stdin=(ADS / file).read_bytes())
    assert (done.returncode, done.stdout) == (3, b"x = 1\n")


# -- the directory that a hook belongs to


def test_hooks_run_from_the_checkout(hooks: Hooks, tmp_path: Path) -> None:
    stand_in = hooks.agent(Reply(b"x = 1\n"))
    checkout = ADS.parent.parent.parent / "hooks" / "fetch_work"
    (tmp_path / "fetch_work").symlink_to(checkout)
    (tmp_path / "hook.conf").write_text(f"keyword = OTHER\nsocket = {hooks.socket}\n")
    run = subprocess.run([tmp_path / "fetch_work"], input=b"", capture_output=True)
    assert (run.stdout, run.stderr) == (b"x = 1\n", b"")
    # the directory of the called script gives the keyword
    assert stand_in.requests[0].keyword == "OTHER"


def test_a_link_from_elsewhere_belongs_to_the_directory_it_points_to(hooks: Hooks, tmp_path: Path) -> None:
    stand_in = hooks.agent(Reply())
    (tmp_path / "fetch").symlink_to(hooks.directory / "fetch_work")
    run = subprocess.run([tmp_path / "fetch"], input=b"", capture_output=True)
    assert (run.returncode, run.stderr) == (0, b"")
    assert stand_in.requests[0].keyword == "FW"


def test_a_job_user_can_run_a_hook(hooks: Hooks, as_nobody: dict[str, Any]) -> None:
    stand_in = hooks.agent(Reply())
    assert hooks.run("job_exit", "exit", stdin=JOB, **as_nobody).returncode == 0
    assert stand_in.requests[0].arg == "exit"


def test_nothing_of_the_callers_python_settings_is_obeyed(hooks: Hooks, tmp_path: Path) -> None:
    hooks.agent(Reply())
    (tmp_path / "posix.py").write_text("raise SystemExit(9)")
    (tmp_path / "fetchwork.py").write_text("raise SystemExit(9)")
    env = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": "/nope", "PYTHONHOME": "/nope"}
    assert hooks.run("fetch_work", env=env, cwd=tmp_path).returncode == 0


# -- ending the job


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as process:
        yield process
        process.kill()


def test_the_job_is_ended_with_the_signal_that_the_agent_asks_for(
    hooks: Hooks, job: subprocess.Popen[bytes]
) -> None:
    hooks.agent(Reply(signal=15, pid=job.pid))
    stdin = b'Cmd = "x"\nJobPid = %d\nOwner = "y"\n' % job.pid
    assert hooks.run("update_job_info", stdin=stdin, closed=True).returncode == 0
    assert job.wait(PATIENCE_S) == -15


@pytest.mark.parametrize("ad", ["", "JobPid = 1{}\n", "JobPid = undefined\n", 'A = "JobPid = {}"\n'])
def test_only_the_job_of_the_ad_is_signalled(hooks: Hooks, job: subprocess.Popen[bytes], ad: str) -> None:
    hooks.agent(Reply(signal=15, pid=job.pid))
    done = hooks.run("update_job_info", stdin=ad.format(job.pid).encode())
    assert done.returncode == 1
    assert f"asks to send signal 15 to process {job.pid}, which is not the job".encode() in done.stderr
    assert job.poll() is None


@pytest.mark.parametrize(("pid", "number"), [(1, 15), (None, 65)])
def test_init_and_unknown_signals_are_left_alone(
    hooks: Hooks, job: subprocess.Popen[bytes], pid: int | None, number: int
) -> None:
    pid = pid or job.pid
    hooks.agent(Reply(signal=number, pid=pid))
    assert hooks.run("update_job_info", stdin=b"JobPid = %d\n" % pid).returncode == 1
    assert job.poll() is None


def test_a_job_that_has_gone_needs_no_signal(hooks: Hooks, job: subprocess.Popen[bytes]) -> None:
    job.kill()
    job.wait()
    hooks.agent(Reply(signal=15, pid=job.pid))
    assert hooks.run("update_job_info", stdin=b"JobPid = %d\n" % job.pid).returncode == 0


def test_a_hook_ends_while_the_agent_keeps_the_connection(hooks: Hooks) -> None:
    def behave(stand_in: StandIn, connection: socket.socket) -> None:
        stand_in.read(connection)
        connection.sendall(encode_reply(Reply()))
        # until the test is over
        stand_in.over.wait()

    hooks.agent(behave)
    done = hooks.run("fetch_work")
    # no deadline ended it: it would have logged that
    assert (done.returncode, done.stderr) == (0, b"")
    assert not os.listdir(hooks.spool)


# -- the card


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_says_who_calls_it_with_what_and_what_silence_means(name: str) -> None:
    text = (ADS.parent.parent.parent / "hooks" / name).read_text()
    assert 20 <= text.count("\n") <= 40
    card = text.split('"""')[1]
    assert card.startswith(f"{name.upper()}: ")
    for line in ("Invoked by", "As user", "Arguments", "Stdin", "Stdout", "Exit status"):
        assert f"\n{line} " in card
    assert "not answer" in " ".join(card.split()) or "nobody answers" in " ".join(card.split())


# -- the hooks of one starter


STARTER = """
import os, subprocess, sys, time
update, exit_ = sys.argv[1:]
# as condor_starter does: the one just before the other
children = [subprocess.Popen([update], stdin=subprocess.DEVNULL)]
children.append(subprocess.Popen([exit_, "exit"], stdin=subprocess.DEVNULL))
children[1].wait()
print("over" if children[0].poll() is not None else "running")
"""


@pytest.mark.parametrize("hangs", [False, True])
def test_job_exit_ends_after_the_update_beside_it_unless_that_hangs(hooks: Hooks, hangs: bool) -> None:
    asked = threading.Event()

    def behave(stand_in: StandIn, connection: socket.socket) -> None:
        request = stand_in.read(connection)
        if request.name == "job_exit":
            asked.set()
        elif hangs:
            stand_in.over.wait(20)
        else:
            # JOB_EXIT, which waits a second, has done all that it can without the lock
            asked.wait(20)
            time.sleep(0.05)
        connection.sendall(encode_reply(Reply()))

    stand_in = hooks.agent(behave)
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(
        [*command, *hooks.command("update_job_info"), *hooks.command("job_exit")],
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        told = starter.communicate(timeout=PATIENCE_S)[0]
    assert told == ("running\n" if hangs else "over\n")
    stand_in.over.set()


# -- the job's output


def test_a_job_that_asks_for_it_has_the_end_of_its_output_in_the_report(hooks: Hooks, tmp_path: Path) -> None:
    stand_in = hooks.agent(Reply())
    (tmp_path / "out").write_text("the end\n")
    stdin = f'FetchWorkTailBytes = 4\nIwd = "{tmp_path}"\nOut = "out"\n'.encode()
    assert hooks.run("job_exit", "exit", stdin=stdin).returncode == 0
    assert stand_in.requests[0].body == stdin + b'FetchWorkStdout = eval("\\"end\\n\\"")\n'
