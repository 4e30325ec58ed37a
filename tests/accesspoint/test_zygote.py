"""The process that forks an access point's children."""

import pwd
import signal
import socket
import subprocess
import sys
from pathlib import Path

from fetchwork.ipc import frames
from tests.support.waiting import PATIENCE_S, until

#: a zygote whose first fork fails, as in a control group at its limit of processes
PROGRAM = """\
import errno, os, socket, sys
from fetchwork.accesspoint import zygote

fork, tried = os.fork, []

def failing():
    tried.append(1)
    if len(tried) == 1:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()

os.fork = failing
zygote.main(socket.socket(fileno=int(sys.argv[1])), 1)
"""


def test_a_fork_that_fails_is_the_end_of_that_request_alone() -> None:
    account = pwd.getpwnam("nobody")
    message = f"{account.pw_uid} {account.pw_gid} - for request".encode()
    control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.settimeout(PATIENCE_S)

    def asked() -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        with theirs:
            socket.send_fds(control, [message], [theirs.fileno()])
        return ours

    with control, its:
        arguments = [sys.executable, "-c", PROGRAM, str(its.fileno())]
        with subprocess.Popen(arguments, pass_fds=[its.fileno()]) as process:
            its.close()
            # the child's end is reported to the zygote, which the test waits for
            with control, asked() as first, asked() as second:
                assert first.recv(1) == b""
                answers = frames.Reader(second)
                second.sendall(frames.encode({"do": "look", "path": "/no/such/file"}))
                assert answers.receive() == {"missing": True}
                second.sendall(frames.encode({"do": "look", "path": "/"}))
                assert answers.receive() == {"missing": False}
            assert process.wait(timeout=PATIENCE_S) == 0


def test_who_is_to_run_a_job_ends_in_silence_when_the_access_point_has_gone() -> None:
    program = (
        "import socket, sys; from fetchwork.accesspoint.scheduler import supervisor;"
        " supervisor.supervise(socket.socket(fileno=int(sys.argv[1])))"
    )
    ours, its = socket.socketpair()
    ours.close()
    with its:
        arguments = [sys.executable, "-c", program, str(its.fileno())]
        ended = subprocess.run(arguments, pass_fds=[its.fileno()], stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_signals_that_are_asked_for_at_once_all_reach_the_job(tmp_path: Path) -> None:
    program = (
        "import socket, sys; from fetchwork.accesspoint.scheduler import supervisor;"
        " supervisor.supervise(socket.socket(fileno=int(sys.argv[1])))"
    )
    script = tmp_path / "job"
    script.write_text(
        "#!/bin/sh\ntrap 'echo one' USR1\ntrap 'echo two; exit 3' USR2\nwhile :; do sleep 0.01; done\n"
    )
    script.chmod(0o755)
    out, result = tmp_path / "out", tmp_path / "result"
    asked = {
        **{"executable": str(script), "name": "job", "arguments": [], "env": {}, "cwd": str(tmp_path)},
        **{"in": "/dev/null", "out": str(out), "err": str(tmp_path / "err"), "fresh": True},
        **{"kill_signal": signal.SIGKILL, "lock": None, "dag_log": None},
    }
    ours, its = socket.socketpair()
    with ours, its, result.open("wb") as file:
        ours.settimeout(PATIENCE_S)
        arguments = [sys.executable, "-c", program, str(its.fileno())]
        with subprocess.Popen(arguments, pass_fds=[its.fileno()]) as process:
            its.close()
            answers = frames.Reader(ours)
            assert answers.receive() == {"pid": process.pid}
            socket.send_fds(ours, [b"r"], [file.fileno()])
            ours.sendall(frames.encode(asked))
            started = answers.receive()
            assert started is not None
            # the shell has set its traps once it sleeps
            until(
                lambda: (
                    Path(f"/proc/{started['started']}/task/{started['started']}/children").read_text() != ""
                )
            )
            ours.sendall(b"".join(frames.encode({"signal": n}) for n in (signal.SIGUSR1, signal.SIGUSR2)))
            ended = answers.receive()
            assert ended is not None and ended["ended"]["ExitCode"] == 3
    assert sorted(out.read_text().split()) == ["one", "two"]


def test_a_process_gets_no_more_memory_than_its_limit_allows_already() -> None:
    """As where a child of an access point forks another process with a limit."""
    program = (
        "import os, resource; from fetchwork.ipc.zygote import limit_memory;"
        " os.geteuid() or os.setuid(65534);"
        " limit_memory(1 << 28); first = resource.getrlimit(resource.RLIMIT_AS);"
        " limit_memory(1 << 30); print(resource.getrlimit(resource.RLIMIT_AS) == first)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "True\n"
