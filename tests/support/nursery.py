"""Forks the matchmaker's zygotes for tests that run an agent in their own process.

Each such test starts a zygote, which spends most of its life on imports. The nursery has imported them once;
a zygote that it forks runs the same main() as one that was executed.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

# bound here, because a test may let agents run without it
from os import pidfd_open

import pytest

from fetchwork.ipc.link import Zygote
from fetchwork.matchmaker import zygote


class Nursery:
    """The process that forks zygotes; it ends when its socket is closed."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.support.nursery", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def zygote(self, control: socket.socket) -> "Forked":
        """A zygote that has this socket."""
        socket.send_fds(self._control, [b"zygote"], [control.fileno()])
        return Forked(int(self._control.recv(32)))

    def close(self) -> None:
        self._control.close()
        self._process.wait()


class Forked:
    """A zygote, with the methods of Popen that an agent calls. The nursery reaps it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = pidfd_open(pid)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self) -> int:
        return self._ended(None) or 0

    def kill(self) -> None:
        if self._ended(0) is None and self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self._pidfd is not None:
            if not select.select([self._pidfd], [], [], timeout)[0]:
                return None
            os.close(self._pidfd)
            self._pidfd = None
        return 0


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The nursery of a session's tests."""
    forks = Nursery()
    yield forks
    forks.close()


@pytest.fixture(autouse=True)
def forked_zygotes(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an agent that runs in this process take its zygotes from the nursery, for the time of one test."""
    popen = Zygote.popen

    def fork(asked: Zygote, control: socket.socket) -> "subprocess.Popen[bytes] | Forked":
        return nursery.zygote(control) if asked.module == zygote.__name__ else popen(asked, control)

    monkeypatch.setattr(Zygote, "popen", fork)


def main(control: socket.socket) -> None:
    """Fork a zygote for each socket that arrives, and answer with its pid; return when the tests are over."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.chdir("/")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 32, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # a zygote waits for its workers
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                zygote.main(socket.socket(fileno=descriptors[0]))
                status = 0
            finally:
                os._exit(status)
        os.close(descriptors[0])
        control.send(str(pid).encode())


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
