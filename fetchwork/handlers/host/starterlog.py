"""Starters' logs of jobs that could not start, and the holds that HTCondor's shadow would derive from them.

No hook gets the starter's own error text. The starter writes it into the file that the ad names as
``StarterUserLog``: an event 021 with the text, but without the hold code that a shadow would get with it; the
code follows from the text. So the agent names a new file in each offer, in a directory of its own; the file
stays empty until the starter writes, and is removed with the run.

The starter opens it as the job's user, so the job may write anything there: the content is a claim about that
one job, and nothing else depends on it. Only the agent may change the directory, so that the name keeps
meaning the agent's file; the name can't be guessed, since it is derived from the run's token.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fetchwork.codes import HoldCode
from fetchwork.errors import one_line
from fetchwork.log import event

log = logging.getLogger(__name__)

#: bytes that are read of a file, half from its begin and half from its end if it is larger: a starter writes
#: a few lines, but more at each suspension
MOST_BYTES = 65536
#: the most characters of an error text
MOST_CHARACTERS = 1000
#: files of unknown runs are removed at this age
LEFT_S = 86400.0
#: a failure to make files is logged at most once in this time
LOG_S = 60.0

#: suffix of a file that reports how a job ended, in place of JOB_EXIT
_TELLS_END = ".end"
#: such a file begins with this line, which HTCondor's readers take for the end of an event. It allocates a
#: block with room for the starter's lines of most jobs, even if the disk is full by then
_RESERVED = b"...\n"

_ERROR = re.compile(r"^021 \([^\n]*\bError from [^\n]*\n((?:\t[^\n]*(?:\n|\Z))+)", re.MULTILINE)
# the texts of os_proc.cpp, user_proc.cpp, StarterHookMgr.cpp and, of Iwd, the shadow's baseshadow.cpp
_FAULTS = (
    (HoldCode.FAILED_TO_CREATE_PROCESS, re.compile(r"Failed to execute '.*\(errno=(\d{1,5}): '[^']*'\)")),
    (
        HoldCode.UNABLE_TO_OPEN_OUTPUT,
        re.compile(r"Failed to open '.*' as standard (?:output|error): .*\(errno (\d{1,5})\)"),
    ),
    (
        HoldCode.UNABLE_TO_OPEN_INPUT,
        re.compile(r"Failed to open '.*' as standard input: .*\(errno (\d{1,5})\)"),
    ),
    (
        HoldCode.HOOK_PREPARE_JOB_FAILURE,
        re.compile(r"PREPARE_JOB \([^)]*\) failed \([a-z ]*status (\d{1,5})\):.*"),
    ),
)
#: a job executes, its startd has suspended it, its startd has let it go on
_STANDS = re.compile(rb"^0(01|10|11) \(", re.MULTILINE)
_IWD = re.compile(r"Cannot access initial working directory [^\n]*: ([^:\n]*)")
_HOOK_NOT_EXECUTED = "failed to execute PREPARE_JOB ("
_IMAGE_TEST = "Singularity test failed:"
#: the subcode of os_proc.cpp for an image that does not work
_IMAGE_SUBCODE = -1000
#: problems that the shadow finds itself
_OF_SHADOW = (HoldCode.IWD_ERROR, HoldCode.CORRUPTED_CREDENTIAL)
#: a HookStatusCode from here on does not hold a job (HTCONDOR-1411)
_NO_HOLD = 300


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a job can't start, in HTCondor's words; without a ``code`` HTCondor would retry it."""

    text: str
    code: int | None = None
    subcode: int = 0

    def reason(self, slot: str) -> str:
        """The HoldReason: the shadow names the slot, except for problems that it finds itself."""
        return self.text if self.code in _OF_SHADOW else f"Error from {slot}: {self.text}"


class Suspended(NamedTuple):
    """Whether a job's startd has suspended it, by the starter's log of this size (-1: no log)."""

    is_suspended: bool
    size: int


def fault_of(text: str) -> Fault:
    """Return the fault for an error text of the starter."""
    for code, pattern in _FAULTS:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        number = int(found[1])
        if code == HoldCode.HOOK_PREPARE_JOB_FAILURE and not 0 < number < _NO_HOLD:
            return Fault(text)
        return Fault(text, code, number)
    if found := _IWD.fullmatch(text):
        return Fault(text, HoldCode.IWD_ERROR, _ERRNO.get(found[1], 0))
    if text.startswith(_HOOK_NOT_EXECUTED):
        return Fault(text, HoldCode.HOOK_PREPARE_JOB_FAILURE)
    if text.startswith(_IMAGE_TEST):
        return Fault(text, HoldCode.SINGULARITY_TEST_FAILED, _IMAGE_SUBCODE)
    return Fault(text)


def read_faults(written: str) -> Fault | None:
    """Return the first fault in a starter's log that holds a job, else the last fault; None without one."""
    found = None
    for error in _ERROR.finditer(written):
        lines = [line.removeprefix("\t") for line in error[1].splitlines()]
        found = fault_of(one_line(" ".join(lines), MOST_CHARACTERS))
        if found.code is not None:
            break
    return found


class StarterLogs:
    """The files of one agent's runs, in ``directory``.

    ``of_users``: HTCondor starts each job as its owner, so the file must belong to that account.
    """

    def __init__(self, directory: Path, *, of_users: bool) -> None:
        self._directory = directory
        self._of_users = of_users
        self._complained_at = float("-inf")
        #: files to be made, with their accounts, and the task that makes them
        self._wanted: list[tuple[Path, int | None]] = []
        self._making: asyncio.Task[dict[Path, OSError]] | None = None

    async def make(self, run_id: int, token: str, uid: int | None, *, tells_end: bool = False) -> str | None:
        """Make a file for a run of an account; None if that fails: the job starts without it.

        The name shows whether the file ``tells_end``, also to the next agent.
        """
        path = self._path(run_id, token, tells_end)
        self._wanted.append((path, uid))
        if self._making is None:
            self._making = asyncio.ensure_future(self._make_wanted())
        error = (await asyncio.shield(self._making)).get(path)
        if error is None:
            return str(path)
        if time.monotonic() >= self._complained_at + LOG_S:
            self._complained_at = time.monotonic()
            event(log, logging.WARNING, "no_starter_log", file=path, problem=error.strerror)
        return None

    async def _make_wanted(self) -> dict[Path, OSError]:
        """Make the files wanted in this turn of the event loop, in one thread; return the errors."""
        await asyncio.sleep(0)
        wanted, self._wanted, self._making = self._wanted, [], None

        def make() -> dict[Path, OSError]:
            problems = {}
            for path, uid in wanted:
                try:
                    self._make(path, uid)
                except OSError as error:
                    problems[path] = error
            return problems

        return await asyncio.to_thread(make)

    async def fault(self, run_id: int, token: str) -> Fault | None:
        """Return the fault in a run's starter log; None if there is no fault, or the log can't be read."""
        for tells_end in (False, True):
            written = await self.written(run_id, token, tells_end=tells_end)
            if written is not None:
                return read_faults(written)
        return None

    async def written(self, run_id: int, token: str, *, tells_end: bool) -> str | None:
        """Return the content of a run's starter log; None if there is no such file, or it can't be read."""
        try:
            data = await asyncio.to_thread(_read, self._path(run_id, token, tells_end))
        except OSError:
            return None
        return data.decode("utf-8", "replace")

    async def suspended(self, runs: Sequence[tuple[int, str, Suspended | None]]) -> list[Suspended]:
        """Whether their startds have suspended the jobs of runs: ids, tokens and the last answers."""
        return await asyncio.to_thread(lambda: [self._suspended(*run) for run in runs])

    def _suspended(self, run_id: int, token: str, known: Suspended | None) -> Suspended:
        for tells_end in (False, True):
            path = self._path(run_id, token, tells_end)
            try:
                size = os.lstat(path).st_size
                if known is not None and known.size == size:
                    return known
                found = _STANDS.findall(_read(path))
            except OSError:
                continue
            return Suspended(found[-1:] == [b"10"], size)
        return Suspended(False, -1)

    async def tell_end(self, run_id: int, token: str) -> bool:
        """Whether this run's file, and not JOB_EXIT, reports how its job ended."""
        return await asyncio.to_thread(os.path.lexists, self._path(run_id, token, True))

    async def tell_ends(self, runs: Iterable[tuple[int, str]]) -> frozenset[int]:
        """Return the ids of the runs (ids and tokens) whose files report their jobs' ends, begun or not."""
        return frozenset([run_id for run_id, token in runs if await self.tell_end(run_id, token)])

    def forget(self, run_id: int, token: str) -> None:
        """Remove the file of a run that is over, in a thread, since the job may have made it large."""
        paths = [self._path(run_id, token, tells_end) for tells_end in (False, True)]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _remove(paths)
        else:
            loop.run_in_executor(None, _remove, paths)

    async def clean(self, living: Collection[tuple[int, str]]) -> None:
        """Remove files of runs that ended while no agent lived; ``living`` has the ids and tokens to keep."""
        names = {
            self._path(run_id, token, tells_end).name
            for run_id, token in living
            for tells_end in (False, True)
        }
        await asyncio.to_thread(self._clean, names)

    def _path(self, run_id: int, token: str, tells_end: bool) -> Path:
        secret = hashlib.sha256(f"starter log {run_id} {token}".encode()).hexdigest()[:32]
        return self._directory / f"{run_id}-{secret}{_TELLS_END if tells_end else ''}"

    def _make(self, path: Path, uid: int | None) -> None:
        try:
            fd = self._create(path)
        except FileNotFoundError:
            # every account may enter it, only the agent may list and change it
            self._directory.mkdir(mode=0o711, exist_ok=True)
            self._directory.chmod(0o711)
            fd = self._create(path)
        try:
            if path.name.endswith(_TELLS_END):
                self._reserve(fd, path)
            if not self._of_users:
                return
            if os.geteuid() == 0 and uid is not None:
                os.fchown(fd, uid, -1)
                if path.name.endswith(_TELLS_END):
                    # every account that knows the name may read it
                    os.fchmod(fd, 0o644)
            else:
                # every account that knows the name may write it: the starter and the job do
                os.fchmod(fd, 0o666)
        finally:
            os.close(fd)

    @staticmethod
    def _create(path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    @staticmethod
    def _reserve(fd: int, path: Path) -> None:
        try:
            os.write(fd, _RESERVED)
        except OSError:
            path.unlink()
            raise

    def _clean(self, names: Collection[str]) -> None:
        try:
            with os.scandir(self._directory) as entries:
                found = [entry for entry in entries if entry.name not in names]
            for entry in found:
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - LEFT_S:
                    Path(entry.path).unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            event(log, logging.WARNING, "starter_logs_not_cleaned", problem=error.strerror)


def _read(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return b""
        if found.st_size <= MOST_BYTES:
            return os.pread(fd, MOST_BYTES, 0)
        half = MOST_BYTES // 2
        return os.pread(fd, half, 0) + b"\n" + os.pread(fd, half, found.st_size - half)
    finally:
        os.close(fd)


def _remove(paths: Collection[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            event(log, logging.WARNING, "starter_log_not_removed", file=path, problem=error.strerror)


#: errno values by the texts of strerror, for errors of a working directory
_ERRNO = {os.strerror(number): number for number in range(1, 134)}
