"""What JOB_EXIT has parked, as the agent reads it: directories of jobs' accounts, which may be anything.

A directory counts when its manifest is there. Trusted is only whose it is, which the kernel knows: a file
in it has to be a regular one of that same account, with one name, opened without following a link; names
are checked again. What is not as it should be is moved aside, to ``bad/``, as with the spool of reports.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchwork.errors import ProtocolError
from fetchwork.handlers.runad import DIRECTORY
from fetchwork.hook.spool import BAD, Spool
from fetchwork.hook.wire import Request, RequestReader
from fetchwork.sandbox import names
from fetchwork.sandbox.failure import TransferFailure
from fetchwork.sandbox.parking import MANIFEST, MAX_FILES, MAX_MANIFEST, REPORT

#: a directory of this age without a manifest has lost its writer
UNFINISHED_LIFE_S = 3600.0
_MAX_REPORT = 2 << 20
#: of how many directories one says that they come before it; these say the same
MAX_AFTER = 100
#: of what was moved aside so many directories are kept, the last ones
KEPT_BAD = 20
#: with what the files may be for
_REPORTS = {"job_exit": ("output", "spool", "nothing"), "save_checkpoint": ("checkpoint",)}


@dataclass(frozen=True, slots=True)
class ParkedFile:
    """One file that was parked: its ``name`` in the sandbox; ``number`` in the directory, a URL or none."""

    name: str
    mode: int
    size: int
    number: int | None
    url: str | None
    directory: bool


@dataclass(frozen=True, slots=True)
class Parked:
    """A directory: who wrote it, the report of the run's end, and the files."""

    name: str
    uid: int
    request: Request
    use: str
    files: tuple[ParkedFile, ...]
    failure: TransferFailure | None
    seconds: float
    #: of the checkpoint that it is
    number: int | None = None
    #: directories that have to be delivered before
    after: tuple[str, ...] = ()


class OutputSpool:
    """The directory in which jobs' accounts park; no file of it is read that has more than ``most_bytes``."""

    def __init__(self, directory: Path, most_bytes: int = sys.maxsize) -> None:
        self.directory = directory
        self.most_bytes = most_bytes
        #: what can neither be moved aside nor deleted: set aside by its name
        self._stuck: set[str] = set()

    def make(self) -> None:
        """Make it, for the agent's account; raises FetchworkError."""
        Spool(str(self.directory)).make()

    def names(self) -> list[str]:
        """The directories with a manifest, oldest first; those that were never finished go after a while."""
        whole = []
        listed = {path.name for path in self.directory.iterdir()}
        self._stuck &= listed
        for name in sorted(listed - self._stuck - {BAD}):
            path = self.directory / name
            try:
                if (path / MANIFEST).exists():
                    whole.append(name)
                elif time.time() - path.lstat().st_mtime > UNFINISHED_LIFE_S:
                    self.delete(name)
            except OSError:
                continue
        return whole

    def account(self, name: str) -> int:
        """Whose directory it is."""
        return (self.directory / name).lstat().st_uid

    def weigh(self, name: str) -> tuple[int, int]:
        """Whose directory it is, and the bytes of what is in it, whatever its manifest says."""
        uid = self.account(name)
        try:
            with os.scandir(self.directory / name) as entries:
                return uid, sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except NotADirectoryError:
            # read() will say so
            return uid, 0

    def is_there(self, name: str, uid: int) -> bool:
        """Whether there is a directory of this account that waits to be delivered."""
        with contextlib.suppress(OSError):
            return name not in self._stuck and self.account(name) == uid
        return False

    def is_stuck(self, name: str) -> bool:
        """Whether a directory was set aside and stays where it is."""
        return name in self._stuck

    def was_set_aside(self, name: str) -> bool:
        """Whether a directory was set aside."""
        return name in self._stuck or (self.directory / BAD / name).exists()

    def read(self, name: str) -> Parked:
        """What is in a directory; raises ProtocolError where that is not as it should be."""
        status = (self.directory / name).lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise ProtocolError("is not a directory")
        reader = RequestReader(_MAX_REPORT)
        reader.feed(self._read_file(name, REPORT, status.st_uid, _MAX_REPORT))
        request = reader.next_request()
        if request is None or not reader.empty or request.name not in _REPORTS:
            raise ProtocolError(f"its report is not one whole request of {' or '.join(_REPORTS)}")
        try:
            manifest = json.loads(self._read_file(name, MANIFEST, status.st_uid, MAX_MANIFEST))
            files = tuple(_files(manifest["files"]))
            use, failure = manifest["use"], _failure(manifest.get("failure"))
            seconds = float(manifest.get("seconds", 0.0))
            number, after = _number(manifest.get("number")), tuple(map(str, manifest.get("after", ())))
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ProtocolError(f"its manifest is not one: {type(error).__name__}") from None
        if use not in _REPORTS[request.name] or (use == "checkpoint" and number is None):
            raise ProtocolError("its manifest names no use")
        # of those only that came before it: so nothing waits for itself
        earlier = tuple(one for one in after[-MAX_AFTER:] if DIRECTORY.fullmatch(one) and one < name)
        return Parked(name, status.st_uid, request, use, files, failure, seconds, number, earlier)

    def open(self, parked: Parked, number: int) -> int:
        """A descriptor of one of the files; raises ProtocolError where it is not one, and OSError.

        One that is too large is not read to find out what it is: a file without blocks may have any size.
        """
        fd = self._open(parked.name, str(number), parked.uid)
        if os.fstat(fd).st_size > self.most_bytes:
            os.close(fd)
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return fd

    def _open(self, directory: str, name: str, uid: int) -> int:
        fd = os.open(
            self.directory / directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        status = os.fstat(fd)
        problem = ""
        if not stat.S_ISREG(status.st_mode):
            problem = "is not a regular file"
        elif status.st_nlink != 1:
            problem = "has more than one name"
        elif status.st_uid != uid:
            problem = "belongs to another account"
        if problem:
            os.close(fd)
            raise ProtocolError(f"file '{name}' in it {problem}")
        return fd

    def _read_file(self, directory: str, name: str, uid: int, most: int) -> bytes:
        try:
            fd = self._open(directory, name, uid)
        except OSError as error:
            raise ProtocolError(f"file '{name}' in it can't be read: {error.strerror}") from None
        with os.fdopen(fd, "rb") as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise ProtocolError(f"file '{name}' in it is larger than {most} bytes")
        return data

    def delete(self, name: str) -> None:
        """Forget a directory that was delivered or is not wanted; one that can't be deleted is set aside."""
        path = self.directory / name
        try:
            if stat.S_ISDIR(path.lstat().st_mode):
                # by descriptors: what its account puts in a file's place is not followed
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            pass
        except (OSError, RecursionError):
            # another account may have closed it, or made it deeper than can be followed
            self._stuck.add(name)

    def set_aside(self, name: str) -> None:
        """Keep a directory that is not as it should be for a while, where it is not read again."""
        bad = self.directory / BAD
        try:
            (self.directory / name).rename(bad / name)
            names = sorted(path.name for path in bad.iterdir())
        except OSError:
            self.delete(name)
            return
        for old in names[: -KEPT_BAD or None]:
            self.delete(f"{BAD}/{old}")


def _files(listed: list[dict[str, Any]]) -> Iterator[ParkedFile]:
    if len(listed) > MAX_FILES:
        raise ValueError(f"{len(listed)} files")
    for one in listed:
        name, mode, size = str(one["name"]), int(one["mode"]) & 0o777, int(one.get("size", 0))
        if names.problem_of(name) or size < 0:
            raise ValueError(name)
        number = one.get("file")
        url = one.get("url")
        if number is not None and (type(number) is not int or not 0 <= number < MAX_FILES):
            raise ValueError(number)
        yield ParkedFile(
            name, mode, size, number, str(url) if url is not None else None, one.get("directory") is True
        )


def _number(told: object) -> int | None:
    if told is not None and (type(told) is not int or not 0 <= told < 2**31):
        raise ValueError(told)
    return told


def _failure(told: dict[str, Any] | None) -> TransferFailure | None:
    if told is None:
        return None
    code = int(told["code"])
    if code not in (12, 33):
        raise ValueError(code)
    return TransferFailure(code, int(told["subcode"]), str(told["reason"]))
