"""Forks workers: ``python -m fetchwork.matchmaker.zygote FD``, with FD the descriptor of its control socket.

Each request is a worker's number. When that worker has ended, the answer is its number, the signal that ended
it (0: it exited), and the phase and number of its last item.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

from fetchwork.ipc import zygote
from fetchwork.matchmaker.bounds import drop_rights, limit_memory
from fetchwork.matchmaker.mark import Mark
from fetchwork.matchmaker.worker import Worker, rehearse


def main(control: socket.socket) -> None:
    """Fork a worker for each socket that comes; return when the agent has gone."""
    # the account `nobody` may be unable to read modules that are imported later
    rehearse()
    drop_rights()
    # after the change of account, which undoes this
    zygote.end_with_parent()
    # one worker lives at a time
    mark = Mark()

    def work(_: str, link: socket.socket) -> None:
        # the kernel ends the process, even while HTCondor's evaluator runs
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        limit_memory()
        Worker(mark).serve(link)

    def report(number: str, pid: int) -> None:
        status = os.waitpid(pid, 0)[1] if pid > 0 else 0
        phase, item = mark.read()
        mark.end()
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            control.send(f"{number} {ended_by} {phase.hex()} {item}".encode())

    zygote.serve(control, work, report)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
