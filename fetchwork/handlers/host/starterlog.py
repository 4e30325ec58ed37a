"""What a starter writes of the jobs that it can't start, and what HTCondor's shadow would make of it.

No hook gets the starter's own words. They go into the file that the ad names as ``StarterUserLog``: an event
021 with the text, without the hold code that a shadow would be sent with it, which follows from the text. So
each offer of an agent names a file of its own, in a directory of the agent's; it says nothing until the
starter writes, and is gone when the run is.

The starter opens it as the job's user, so the job may write there what it likes: what is read is a claim
about that one job, and nothing else depends on it. The directory is the agent's alone, so that the name stays
the agent's file; a name can't be guessed, for it comes from the run's token.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import stat
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from fetchwork.codes import HoldCode
from fetchwork.errors import one_line
from fetchwork.log import event

log = logging.getLogger(__name__)

#: bytes of a file that are read, half of a larger one's from its end: a starter writes a few lines, but more
#: at each suspension
MOST_BYTES = 65536
#: characters of a text that is taken from it
MOST_CHARACTERS = 1000
#: files of runs that nobody knows any more go after this
LEFT_S = 86400.0
#: that no file can be made is logged so often
LOG_S = 60.0

#: what the name of a file ends with that tells how a job ended, in place of JOB_EXIT
_TELLS_END = ".end"
#: what such a file begins with: to HTCondor's readers the end of an event. The block that it takes has room
#: for what a starter writes of most jobs, though the disk be full by then
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
_IWD = re.compile(r"Cannot access initial working directory [^\n]*: ([^:\n]*)")
_HOOK_NOT_EXECUTED = "failed to execute PREPARE_JOB ("
_IMAGE_TEST = "Singularity test failed:"
#: the subcode of os_proc.cpp for an image that does not work
_IMAGE_SUBCODE = -1000
#: what the shadow finds itself
_OF_SHADOW = (HoldCode.IWD_ERROR, HoldCode.CORRUPTED_CREDENTIAL)
#: from here on HookStatusCode is no reason to hold a job (HTCONDOR-1411)
_NO_HOLD = 300


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a job can't start, in HTCondor's words; without a ``code`` HTCondor would try it again."""

    text: str
    code: int | None = None
    subcode: int = 0

    def reason(self, slot: str) -> str:
        """As HoldReason has it: the shadow names the slot, but for what it finds itself."""
        return self.text if self.code in _OF_SHADOW else f"Error from {slot}: {self.text}"


def fault_of(text: str) -> Fault:
    """What is known of a text of the starter's."""
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
    """The fault in what a starter wrote: the first that a job is held for, else the last; None for none."""
    found = None
    for error in _ERROR.finditer(written):
        lines = [line.removeprefix("\t") for line in error[1].splitlines()]
        found = fault_of(one_line(" ".join(lines), MOST_CHARACTERS))
        if found.code is not None:
            break
    return found


class StarterLogs:
    """The files of one agent's runs, in ``directory``.

    ``of_users``: HTCondor starts each job as its owner, so that the file has to be that account's.
    """

    def __init__(self, directory: Path, *, of_users: bool) -> None:
        self._directory = directory
        self._of_users = of_users
        self._complained_at = float("-inf")
        #: files to be made, of which accounts, and what makes them
        self._wanted: list[tuple[Path, int | None]] = []
        self._making: asyncio.Task[dict[Path, OSError]] | None = None

    async def make(self, run_id: int, token: str, uid: int | None, *, tells_end: bool = False) -> str | None:
        """A new file for a run of an account; None where there can't be one: the job starts without it.

        One that ``tells_end`` is known as such by its name, by the next agent too.
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
        """Make what is wanted in this turn of the loop, by one thread; why some could not be made."""
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
        """What the starter of a run has written of a failure; None where it has not, or can't be read."""
        for tells_end in (False, True):
            written = await self.written(run_id, token, tells_end=tells_end)
            if written is not None:
                return read_faults(written)
        return None

    async def written(self, run_id: int, token: str, *, tells_end: bool) -> str | None:
        """What the starter of a run has written; None where there is no such file, or it can't be read."""
        try:
            data = await asyncio.to_thread(_read, self._path(run_id, token, tells_end))
        except OSError:
            return None
        return data.decode("utf-8", "replace")

    async def tell_end(self, run_id: int, token: str) -> bool:
        """Whether it is the file of this run, and not JOB_EXIT, that tells how its job ended."""
        return await asyncio.to_thread(os.path.lexists, self._path(run_id, token, True))

    async def tell_ends(self, runs: Iterable[tuple[int, str]]) -> frozenset[int]:
        """Those of these runs, ids and tokens, whose files tell how their jobs ended, begun or not."""
        return frozenset([run_id for run_id, token in runs if await self.tell_end(run_id, token)])

    def forget(self, run_id: int, token: str) -> None:
        """The run is over: its file goes, beside the event loop, for the job may have made it large."""
        paths = [self._path(run_id, token, tells_end) for tells_end in (False, True)]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _remove(paths)
        else:
            loop.run_in_executor(None, _remove, paths)

    async def clean(self, living: Collection[tuple[int, str]]) -> None:
        """Remove what runs have left that ended while no agent lived; ``living`` are ids and tokens."""
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
            # entered by every account, listed and changed by none but the agent
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
                    # whoever knows the name may read, and that may be a fetch without an agent
                    os.fchmod(fd, 0o644)
            else:
                # whoever knows the name may write, and that are the starter and the job
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


#: the errors of a working directory, by what strerror says of them
_ERRNO = {os.strerror(number): number for number in range(1, 134)}
