"""Forks workers: ``python -m fetchwork.matchmaker.zygote FD``, with FD the descriptor of its control socket.

Each message on the control socket has a worker's number and one end of a socket pair for it. When that worker
has ended, the answer is its number, the signal that ended it (0: it exited), and the phase and number of its
last item.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import traceback

from fetchwork.matchmaker.bounds import drop_rights, limit_memory
from fetchwork.matchmaker.mark import Mark
from fetchwork.matchmaker.worker import Worker, rehearse

_PR_SET_PDEATHSIG = 1


def main(control: socket.socket) -> None:
    """Fork a worker for each socket that comes; return when the agent has gone."""
    libc = ctypes.CDLL(None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # a terminal or service manager sends these: the agent ends first, and the zygote with it
        signal.signal(ignored, signal.SIG_IGN)
    # the account `nobody` may be unable to read modules that are imported later
    rehearse()
    drop_rights()
    # after the change of account, which clears this
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, 32, 1)
        except ConnectionResetError:
            # the agent has gone without having read everything
            return
        if not message or not descriptors:
            return
        mark = Mark()
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                control.close()
                if os.getppid() == zygote:
                    _work(socket.socket(fileno=descriptors[0]), mark)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(descriptors[0])
        _, status = os.waitpid(pid, 0)
        phase, number = mark.read()
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            control.send(f"{message.decode()} {ended_by} {phase.hex()} {number}".encode())


def _work(link: socket.socket, mark: Mark) -> None:
    # the kernel ends the process, even while HTCondor's evaluator runs
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    limit_memory()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Worker(mark).serve(link)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
