"""A hook whose agent is away, deaf, slow, mad, or dies: it never hangs, and never prints much."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from typing import Any

import pytest

from fetchwork.hook.spool import Spool
from fetchwork.hook.wire import HOOKS, Reply, encode_reply
from tests.hooks.conftest import Behave, Done, Hooks, StandIn
from tests.support.waiting import PATIENCE_S

from .conftest import ADS

JOB = (ADS / "25.14.1-job_exit-exit-code3.ad").read_bytes()
# a hook with a deadline of 1 or 2 s ends before this on a busy machine too; default deadlines are longer
BOUND_S = 9
ARGS = {"job_exit": ["exit"], "reply_fetch": ["accept"]}


def absent(agent: StandIn, connection: socket.socket) -> None:
    raise AssertionError("is not started")


def deaf(agent: StandIn, connection: socket.socket) -> None:
    agent.over.wait(20)


def takes_and_is_silent(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    agent.over.wait(20)


def trickles(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    for byte in b"fetchwork/1 ok\nlength: 100000\n\n" + b"x" * 1000:
        if agent.over.wait(0.1):
            return
        connection.sendall(bytes([byte]))


def answers_nonsense(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def breaks_off(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    connection.sendall(b"fetchwork/1 ok\nlength: 100\n\nCmd = 1")


def dies(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)


def dies_at_once(agent: StandIn, connection: socket.socket) -> None:
    connection.recv(1)


def floods(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    while not agent.over.is_set():
        connection.sendall(b"x" * 65536)


BEHAVIOURS = [
    absent,
    deaf,
    takes_and_is_silent,
    trickles,
    answers_nonsense,
    breaks_off,
    dies,
    dies_at_once,
    floods,
]


#: all hooks have one client: `make test` tries one behaviour of each of the others
ALL_BEHAVIOURS_OF = ("fetch_work", "job_exit")


def cases() -> list[Any]:
    """Each hook with each behaviour."""
    return [
        pytest.param(
            name,
            behave,
            id=f"{name}-{behave.__name__}",
            marks=[] if name in ALL_BEHAVIOURS_OF or behave is deaf else pytest.mark.all,
        )
        for name in HOOKS
        for behave in BEHAVIOURS
    ]


def check_outcome(name: str, done: Done) -> None:
    """Check the output that HTCondor reads from a hook that had no answer."""
    if name == "fetch_work":
        assert (done.returncode, done.stdout) == (0, b"")
    elif name == "prepare_job":
        assert done.returncode == 1
        code, message = done.stdout.decode().splitlines()
        assert code == "HookStatusCode = 350"
        assert message.startswith('HookStatusMessage = "fetchwork: ')
    elif name == "job_exit":
        assert (done.returncode, done.stdout) == (0, b"")
    else:
        assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"fetchwork {name}: ".encode())


@pytest.mark.parametrize(("name", "behave"), cases())
def test_no_answer_is_told_in_time_and_in_the_direction_that_htcondor_reads(
    hooks: Hooks, name: str, behave: Behave
) -> None:
    hooks.configure(deadline_s=1)
    if behave is not absent:
        hooks.agent(behave)
    begun = time.time()
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    check_outcome(name, done)
    assert done.seconds < BOUND_S
    reports = Spool(str(hooks.spool)).read().reports
    if name == "job_exit":
        [report] = reports
        assert (report.uid, report.request.body, report.request.arg) == (os.geteuid(), JOB, "exit")
        assert begun - 1 <= report.request.written <= time.time() + 1
    else:
        assert reports == []


@pytest.mark.parametrize("code", ["unavailable", "failed", "unknown_request", "denied", "bad_request"])
@pytest.mark.parametrize("name", HOOKS)
def test_an_error_of_the_agent_is_no_answer(hooks: Hooks, name: str, code: str) -> None:
    hooks.agent(Reply(code=code, message="something is wrong"))
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    assert b"something is wrong" in done.stderr
    if name == "job_exit" and code in ("denied", "bad_request"):
        # the same report would be refused again
        assert done.returncode == 1
        assert os.listdir(hooks.spool) == []
    else:
        check_outcome(name, done)


def test_a_full_queue_of_connections_is_waited_for_and_given_up(hooks: Hooks) -> None:
    import socket

    hooks.configure(deadline_s=1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(hooks.socket))
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            try:
                one.connect(str(hooks.socket))
            except BlockingIOError:
                break
        done = hooks.run("fetch_work")
        for one in waiting:
            one.close()
    check_outcome("fetch_work", done)
    assert 0.9 < done.seconds < BOUND_S


# -- stdin and stdout


@pytest.mark.parametrize("name", ["fetch_work", "prepare_job", "update_job_info"])
def test_a_stdin_that_never_ends_is_given_up(hooks: Hooks, name: str) -> None:
    hooks.configure(deadline_s=1)
    with subprocess.Popen(
        hooks.command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(b"a = 1\n")
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == (0 if name == "fetch_work" else 1)
        assert process.stderr.read() == f"fetchwork {name}: stdin does not end\n".encode()


def test_a_stdin_without_bound_is_given_up(hooks: Hooks) -> None:
    with open("/dev/zero", "rb") as zero:
        run = subprocess.run(
            hooks.command("update_job_info"), stdin=zero, capture_output=True, timeout=PATIENCE_S
        )
    assert run.returncode == 1
    assert run.stderr == b"fetchwork update_job_info: stdin is larger than 16777216 bytes\n"


def test_a_stdout_that_nobody_reads_is_given_up(hooks: Hooks) -> None:
    # on a busy machine the answer is slow, and must arrive before the deadline
    hooks.configure(deadline_s=4)
    hooks.agent(Reply(b"x" * 1_000_000))
    with subprocess.Popen(
        hooks.command("fetch_work"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b"fetchwork fetch_work: stdout is not read\n"


def test_a_closed_stdout_is_no_traceback(hooks: Hooks) -> None:
    hooks.agent(Reply(b"x" * 1_000_000))
    with subprocess.Popen(
        hooks.command("fetch_work"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b"fetchwork fetch_work: cannot write stdout: Broken pipe\n"


def test_a_stderr_that_nobody_reads_does_not_hold_a_hook_up(hooks: Hooks) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    run = subprocess.run(
        hooks.command("fetch_work"), stdin=subprocess.DEVNULL, stderr=write, timeout=PATIENCE_S
    )
    assert run.returncode == 0
    os.close(read)
    os.close(write)


# -- a hook that stands still (SIGSTOP)


def stops(agent: StandIn, connection: socket.socket) -> None:
    """Take the request, and stop its hook until the deadline is over; then answer or be silent."""
    agent.read(connection)
    pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    os.kill(pid, signal.SIGSTOP)
    # the deadline is a second; the timer's signal, which ends a hook that hangs, comes two later
    time.sleep(1.1)
    os.kill(pid, signal.SIGCONT)


def stops_and_is_silent(agent: StandIn, connection: socket.socket) -> None:
    stops(agent, connection)
    agent.over.wait(20)


def stops_and_answers(agent: StandIn, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        stops(agent, connection)
        connection.sendall(encode_reply(Reply()))


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_stands_still_past_its_deadline_gives_up_and_loses_no_report(
    hooks: Hooks, name: str
) -> None:
    hooks.configure(deadline_s=1)
    hooks.agent(stops_and_is_silent)
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    check_outcome(name, done)
    assert 1.0 < done.seconds < BOUND_S
    reports = Spool(str(hooks.spool)).read().reports
    assert [report.request.body for report in reports] == ([JOB] if name == "job_exit" else [])


@pytest.mark.parametrize("name", HOOKS)
def test_an_answer_that_comes_while_a_hook_stands_still_is_taken_or_given_up(hooks: Hooks, name: str) -> None:
    hooks.configure(deadline_s=1)
    agent = hooks.agent(stops_and_answers)
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    if done.stderr:
        check_outcome(name, done)
    else:
        assert (done.returncode, done.stdout) == (0, b"")
    # a report that was delivered may be in the spool as well: it counts once
    assert [request.body for request in agent.requests] == [JOB]


# -- hook.conf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("socket = /x\n", "has no 'keyword = ...'"),
        ("keyword = FW\n", "has no 'socket = ...'"),
        ("keyword = FW\nsocket = /x\ndeadline_s = soon\n", "deadline_s is 'soon'; allowed are 1 to 86400"),
        (None, "no hook.conf in '"),
    ],
)
def test_a_bad_hook_conf_is_named(hooks: Hooks, text: str | None, message: str) -> None:
    file = hooks.directory / "hook.conf"
    file.unlink() if text is None else file.write_text(text)
    done = hooks.run("prepare_job", stdin=JOB)
    check_outcome("prepare_job", done)
    assert message.encode() in done.stderr


def test_only_fetch_work_may_wait_longer_than_by_default(hooks: Hooks) -> None:
    hooks.configure(deadline_s=500)
    stand_in = hooks.agent(Reply())
    hooks.run("fetch_work")
    hooks.run("job_exit", "exit", stdin=JOB)
    fetch, report = stand_in.requests
    assert 400_000 < fetch.deadline_ms <= 500_000
    assert report.deadline_ms <= 20_000


def test_job_exit_has_a_deadline_of_its_own(hooks: Hooks) -> None:
    hooks.configure(deadline_s=500, job_exit_deadline_s=6)
    stand_in = hooks.agent(Reply())
    hooks.run("job_exit", "exit", stdin=JOB)
    assert stand_in.requests[0].deadline_ms <= 6000


@pytest.mark.parametrize("name", HOOKS)
def test_no_setting_lets_a_hook_do_the_work_of_an_agent(hooks: Hooks, name: str) -> None:
    program = hooks.home / "program"
    program.write_text("#!/bin/sh\necho 'Cmd = \"/bin/true\"'; exit 0\n")
    program.chmod(0o755)
    hooks.configure(direct_python=program, direct_config="/dev/null")
    check_outcome(name, hooks.run(name, *ARGS.get(name, []), stdin=JOB))


# -- the spool


def test_a_spool_that_takes_nothing_is_named(hooks: Hooks, as_nobody: dict[str, Any]) -> None:
    hooks.spool.chmod(0o700)
    if not as_nobody:
        pytest.skip("needs root, to be another account")
    done = hooks.run("job_exit", "exit", stdin=JOB, **as_nobody)
    assert done.returncode == 1
    assert f"cannot write a report to spool '{hooks.spool}': Permission denied".encode() in done.stderr


def test_the_jobs_user_leaves_its_report_under_its_own_name(hooks: Hooks, as_nobody: dict[str, Any]) -> None:
    done = hooks.run("job_exit", "evict", stdin=JOB, **as_nobody)
    assert done.returncode == 0
    [report] = Spool(str(hooks.spool)).read().reports
    assert report.uid == (65534 if as_nobody else os.geteuid())
    assert report.request.arg == "evict"


# -- secrets


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("behave", [absent, answers_nonsense], ids=lambda behave: behave.__name__)
def test_no_token_and_no_environment_is_ever_printed(hooks: Hooks, name: str, behave: Any) -> None:
    hooks.configure(deadline_s=1)
    if behave is not absent:
        hooks.agent(behave)
    stdin = b'FetchWorkToken = "s3cret"\nClaimId = "s3cret"\nJobPid = 1\nbad line s3cret\n'
    done = hooks.run(name, *ARGS.get(name, []), stdin=stdin, env={"CONDOR_PRIVATE_INHERIT": "s3cret"})
    assert b"s3cret" not in done.stdout + done.stderr
