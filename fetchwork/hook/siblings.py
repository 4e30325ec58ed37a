"""JOB_EXIT waits for the UPDATE_JOB_INFO that its starter began just before it.

The starter ends with JOB_EXIT, whatever else it has started. The startd of HTCondor 25 then finds that a
process of the starter's is still there, and sleeps for a second or two, in which no slot is looked
after (Claim::starterExited). So the hook that decides about the starter's end has to be the last.
"""

import posix
from time import monotonic, sleep

_NAME = b"update_job_info"
#: no longer than what it is to spare
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
        # a kernel without it
        return False
    return any(_runs(child.decode()) for child in children)


def _runs(pid: str) -> bool:
    """Whether a process is an UPDATE_JOB_INFO that has not ended, be it in Python or compiled."""
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
