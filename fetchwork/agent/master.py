"""The agent and condor_master: the agent's life after its master's death, and the next agent's takeover.

kill -9 of condor_master does not end the agent. That is useful: startd and starters end within seconds, and
only the agent is left to watch the jobs that live on. So it stays until none of its runs is left, gives out
no work (a dying startd would leave the job behind as an orphan), and ends when the agent of another master
comes.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from pathlib import Path

from fetchwork.agent.client import status
from fetchwork.errors import AgentUnavailable
from fetchwork.ipc.peer import credentials

NAME = "condor_master"
#: seconds within which startd and starters notice their master's death
LAST_HOOKS_S = 30.0
#: seconds for the end of an agent that is replaced: it finishes its requests first
TAKE_OVER_S = 15.0


class Master:
    """The condor_master that started this process, if any."""

    def __init__(self) -> None:
        parent = os.getppid()
        self._pid = parent if _name(parent) == NAME else None

    @property
    def gone(self) -> bool:
        """Whether a condor_master started this process and has ended."""
        return self._pid is not None and os.getppid() != self._pid


def take_over(path: Path, connection: socket.socket) -> None:
    """End the agent at the other end of ``connection`` to its socket ``path``, if its master is gone.

    Raises AgentUnavailable if its master lives, or it does not end.
    """
    pid = credentials(connection).pid
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if not status(path).get("master_gone"):
            raise AgentUnavailable(f"another agent listens at '{path}', pid {pid}")
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        if not ended.poll(TAKE_OVER_S * 1000):
            raise AgentUnavailable(f"agent {pid}, whose condor_master is gone, does not end")
    except ProcessLookupError:
        return
    except OSError as error:
        raise AgentUnavailable(
            f"agent {pid}, whose condor_master is gone, can't be ended: {error.strerror}"
        ) from error
    finally:
        os.close(pidfd)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""
