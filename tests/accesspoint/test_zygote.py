"""The process that forks an access point's children."""

import pwd
import socket
import subprocess
import sys

from fetchwork.accesspoint import child
from fetchwork.client import wire
from tests.support.waiting import PATIENCE_S

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
                second.sendall(wire.encode({"do": "look", "path": "/no/such/file"}))
                assert child.receive(second) == {"missing": True}
                second.sendall(wire.encode({"do": "look", "path": "/"}))
                assert child.receive(second) == {"missing": False}
            assert process.wait(timeout=PATIENCE_S) == 0


def test_who_is_to_run_a_job_ends_in_silence_when_the_access_point_has_gone() -> None:
    program = (
        "import socket, sys; from fetchwork.accesspoint import supervisor;"
        " supervisor.supervise(socket.socket(fileno=int(sys.argv[1])))"
    )
    ours, its = socket.socketpair()
    ours.close()
    with its:
        arguments = [sys.executable, "-c", program, str(its.fileno())]
        ended = subprocess.run(arguments, pass_fds=[its.fileno()], stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
