"""JOB_EXIT waits for the UPDATE_JOB_INFO that its starter began just before it.

The starter ends with JOB_EXIT even if another hook of it still runs. The startd of HTCondor 25 then finds a
remaining process of the starter, and sleeps for a second or two, in which it serves no slot
(Claim::starterExited). So JOB_EXIT has to be the last hook to end.
"""

import posix
from time import monotonic, sleep

_NAME = b"update_job_info"
#: no longer than the sleep that this avoids
MOST_S = 1.0
_STEP_S = 0.002


def await_updates() -> None:
    """Return when no UPDATE_JOB_INFO of this hook's starter runs, or after ``MOST_S`` seconds."""
    end = monotonic() + MOST_S
    while _is_updating() and monotonic() < end:
        sleep(_STEP_S)


def _is_updating() -> bool:
    starter = posix.getppid()
    try:
        children = _read(f"/proc/{starter}/task/{starter}/children").split()
    except OSError:
        # a kernel without this file
        return False
    return any(_runs(child.decode()) for child in children)


def _runs(pid: str) -> bool:
    """Whether a process is a live UPDATE_JOB_INFO, in Python or compiled."""
    try:
        status = _read(f"/proc/{pid}/stat")
    except OSError:
        return False
    name = status[status.find(b"(") + 1 : status.rfind(b")")]
    return name == _NAME and status[status.rfind(b")") + 2 :][:1] not in (b"Z", b"X", b"")


def _read(path: str) -> bytes:
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return posix.read(fd, 4096)
    finally:
        posix.close(fd)
