"""The agent's rights over the processes and files of jobs, which belong to other accounts.

One of three cases holds. The agent is root, or has left a privileged part behind (``privilegedpart``):
HTCondor runs as root. Or jobs run as the agent's own account: HTCondor is an ordinary account. Or neither:
then UPDATE_JOB_INFO has to end jobs, and is configured (``HostConfig.agent_updates``).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import pwd
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from fetchwork.agent.root.described import describe, family_of, namespace
from fetchwork.agent.root.privilegedclient import PrivilegedClient
from fetchwork.process import Process, family
from fetchwork.sandbox import credentials, diskuse

Result = TypeVar("Result")

#: seconds for writing a file, which may be on a file system that does not answer
WRITE_S = 10.0
#: seconds for counting a directory's files
COUNT_S = 1.5
#: most accounts whose files are opened or written at once
MOST_OPENING = 32
#: by which right the agent signals jobs
How = Literal["root", "root part", "own account"]


class SignalRights:
    """The rights of one agent; ``part`` is the client of its privileged part, if it has one."""

    def __init__(self, part: PrivilegedClient | None = None) -> None:
        self._part = part
        #: a call may take seconds if a file system does not answer, so one account's calls take turns
        self._opening = ThreadPoolExecutor(MOST_OPENING, "opening")
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @property
    def how(self) -> How:
        """The right by which the agent signals jobs."""
        if os.geteuid() == 0:
            return "root"
        return "own account" if self._part is None else "root part"

    async def signal(self, process: Process, number: int, *, group: bool = False) -> None:
        """Send a job's process a signal, with ``group`` also its process group; do nothing if it is gone.

        Raises OSError, mostly PermissionError.
        """
        if self._part is None:
            process.signal(number, group=group)
            return
        uid = process.owner
        if uid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            await asyncio.to_thread(self._part.signal, process.key, uid, number, group=group)

    async def family(self, job: Process) -> list[Process]:
        """Return a job's process and all others of the job, also those that are no longer below it.

        Raises OSError.
        """
        if self._part is None:
            found = await asyncio.to_thread(_family, job)
            keys = [f"{pid}:{start}" for pid, start in found]
        elif (uid := job.owner) is None:
            keys = []
        else:
            keys = await self._in_turn(uid, self._part.family, job.key, uid)
        others = [process for process in map(Process.of_key, keys) if process is not None]
        return list(dict.fromkeys([*family(job), *others]))

    async def end_starter(self, starter: Process) -> None:
        """Tell a starter that waits without a process of its own to end, as its startd would.

        Raises OSError: EBUSY if it has a process by now, mostly PermissionError.
        """
        if self._part is None:
            starter.signal(signal.SIGTERM)
            return
        with contextlib.suppress(ProcessLookupError):
            await asyncio.to_thread(self._part.end_starter, starter.key)

    async def open(self, path: Path, uid: int) -> int:
        """Open a plain file of an account for reading, as that account; raises OSError."""
        if self._part is None:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        return await self._in_turn(uid, self._part.open, path, uid)

    async def put_credential(self, directory: Path, name: str, content: bytes, uid: int) -> None:
        """Write a credential of an account into a directory of the same account, as that account.

        Raises OSError, mostly PermissionError if the jobs belong to another account than the agent's.
        """
        if self._part is not None:
            await self._in_turn(uid, self._part.put_credential, directory, name, content, uid)
        elif os.geteuid() == 0 and uid != 0:
            await _put_as(directory, name, content, uid)
        elif os.geteuid() != uid:
            raise PermissionError(errno.EPERM, "this agent has no rights to write as the job's account")
        else:
            await asyncio.to_thread(credentials.put, str(directory), name, content)

    async def disk_used(self, starter: Process, uid: int) -> int:
        """Return the bytes of an account's files in a starter's scratch directory; raises OSError.

        Files that could not be counted are missing.
        """
        if self._part is not None:
            used = await self._in_turn(uid, _counted, self._part.disk_used, starter.key, uid)
        else:
            used = await self._in_turn(uid, _counted, _disk_used, starter)
        return used.size

    async def open_output(self, process: Process, uid: int) -> dict[int, int]:
        """Return descriptors of the plain files that a job's process has as stdout (1) and stderr (2).

        Only if ``how`` is "root part". A stream that is no plain file, or that the account may not read, is
        left out. Raises OSError if the privileged part does not answer.
        """
        assert self._part is not None
        opened: dict[int, int] = {}
        try:
            for stream in (1, 2):
                with contextlib.suppress(PermissionError, ProcessLookupError, FileNotFoundError):
                    key = process.key
                    opened[stream] = await self._in_turn(uid, self._part.open_output, key, uid, stream)
        except BaseException:
            for fd in opened.values():
                os.close(fd)
            raise
        return opened

    async def _in_turn(self, uid: int, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a blocking function in the account's turn and return its result, which may be a descriptor.

        If the caller is cancelled meanwhile, the account's turn ends with the function, and a descriptor that
        it opened is closed.
        """
        turn = self._turns.setdefault(uid, asyncio.Lock())
        await turn.acquire()
        try:
            started = self._opening.submit(function, *arguments)
        except BaseException:
            turn.release()
            raise
        ended = asyncio.wrap_future(started)
        ended.add_done_callback(lambda _: turn.release())
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            started.cancel()
            ended.add_done_callback(_close)
            raise

    async def until_lost(self) -> None:
        """Wait for the end of the privileged part; for ever if the agent has no such part."""
        lost = asyncio.Event()
        if self._part is None:
            await lost.wait()
            return
        loop = asyncio.get_running_loop()
        handle = os.pidfd_open(self._part.pid)
        loop.add_reader(handle, lost.set)
        try:
            await lost.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    def close(self) -> None:
        """Give up the rights."""
        self._opening.shutdown(wait=False, cancel_futures=True)
        if self._part is not None:
            self._part.close()


def _close(ended: asyncio.Future[Result]) -> None:
    fd = None if ended.cancelled() or ended.exception() else ended.result()
    if isinstance(fd, int):
        os.close(fd)


def _family(job: Process) -> list[tuple[int, int]]:
    process = describe(job.pid)
    return [] if process is None else family_of(job.pid, namespace(process.parent))


class _Size(NamedTuple):
    """A directory's size in bytes; a bare int would be taken for a descriptor by ``_close``."""

    size: int


def _counted(count: Callable[..., int], *arguments: object) -> _Size:
    return _Size(count(*arguments))


def _disk_used(starter: Process) -> int:
    # a starter changes into its job's scratch directory and stays there
    directory = os.open(f"/proc/{starter.pid}/cwd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not starter.alive:
            raise ProcessLookupError(errno.ESRCH, "the starter has ended")
        return diskuse.used(directory, time.monotonic() + COUNT_S)
    finally:
        os.close(directory)


async def _put_as(directory: Path, name: str, content: bytes, uid: int) -> None:
    """Write a credential by a child process that becomes the account first; raises OSError."""
    try:
        entry = await asyncio.to_thread(pwd.getpwuid, uid)
        groups = await asyncio.to_thread(os.getgrouplist, entry.pw_name, entry.pw_gid)
    except KeyError:
        raise PermissionError(errno.EPERM, f"uid {uid} has no account on this host") from None
    account = (str(uid), str(entry.pw_gid), ",".join(map(str, groups)))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", credentials.__name__, str(directory), name, *account,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={},
    )  # fmt: skip
    try:
        async with asyncio.timeout(WRITE_S):
            await process.communicate(content)
    finally:
        if process.returncode is None:
            process.kill()
    number = process.returncode or 0
    if number:
        raise OSError(number if number > 0 else errno.EIO, os.strerror(number if number > 0 else errno.EIO))
