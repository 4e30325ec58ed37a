"""Jobs that outlive their starter: which process is a job's, whether it is an orphan, how it is ended.

kill -9 of condor_master, alone or together with its daemons, leaves jobs running that no hook will ever
report. Such a job must not run again beside its orphan, and the orphan's exit status can't be learnt.

The job's process is known by its updates (JobPid), before the first of them by the children of its starter,
and after a restart of the agent by JobPid and JobStartDate in the database.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from fetchwork.agent import peer

#: an orphan gets SIGTERM, and SIGKILL after this
VACATE_S = 10.0
#: clocks of /proc and of the starter's JobStartDate differ by less
START_SLACK_S = 3.0
_HOOKS = frozenset({"prepare_job", "update_job_info", "job_exit"})


def is_orphan(process: str | None, starter: str | None) -> bool:
    """Tell whether a job's process lives though its starter does not."""
    return (
        process is not None
        and peer.is_alive(process)
        and not (starter is not None and peer.is_alive(starter))
    )


def recorded_process(row: dict[str, Any]) -> str | None:
    """The job's process of a run in the database (row of ``host_runs``), if it is still the same one."""
    pid, start = row["job_pid"], row["job_start_date"]
    if not pid or start is None:
        return None
    process, started_at = peer.identity(pid), peer.started_at(pid)
    if process is None or started_at is None or abs(started_at - start) > START_SLACK_S:
        return None
    return process


def child_of(starter: str) -> str | None:
    """The job's process among the children of a living starter; the others are hooks."""
    pid = peer.pid_of(starter)
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    if not peer.is_alive(starter):
        return None
    for child in map(int, children):
        process = peer.identity(child)
        words = _command(child)
        # between fork and exec it looks like the starter itself
        if process is None or not words or words == _command(pid):
            continue
        if not _HOOKS & {word.rpartition("/")[2] for word in words}:
            return process
    return None


async def end(process: str) -> str | None:
    """End an orphan and wait for its end a while; returns why it can't be ended, None otherwise."""
    for number, patience_s in ((signal.SIGTERM, VACATE_S), (signal.SIGKILL, 2.0)):
        pid = peer.pid_of(process)
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except OSError as error:
            return error.strerror
        try:
            if not peer.is_alive(process):
                return None
            if number == signal.SIGKILL and os.getpgid(pid) == pid:
                # as HTCondor does: the job's own group with it
                os.killpg(pid, number)
            signal.pidfd_send_signal(pidfd, number)
        except ProcessLookupError:
            return None
        except OSError as error:
            return error.strerror
        finally:
            os.close(pidfd)
        await until_ended(process, patience_s)
    return None


async def until_ended(process: str, timeout_s: float) -> None:
    """Wait for the end of a process that is not our child."""
    for _ in range(int(timeout_s * 5)):
        if not peer.is_alive(process):
            return
        await asyncio.sleep(0.2)


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []
