"""The directories in which JOB_EXIT has staged outputs, and their checks: jobs' accounts may forge them.

A directory counts once its manifest is there. Only its owner is trusted, whom the kernel knows: a file in it
must be a regular file of the same account, with one name, opened without following a link; names are checked
again. A directory that fails a check is moved aside to ``bad/``, as in the spool of reports.
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
from collections.abc import Iterator, Set
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

#: age in seconds at which a directory without a manifest has lost its writer
UNFINISHED_LIFE_S = 3600.0
_MAX_REPORT = 2 << 20
#: most directories that a manifest may name as earlier ones; these name earlier ones in turn
MAX_AFTER = 100
#: number of moved-aside directories kept, the latest ones
KEPT_BAD = 20
#: report's request -> allowed uses of the files
_REPORTS = {"job_exit": ("output", "spool", "nothing"), "save_checkpoint": ("checkpoint",)}


@dataclass(frozen=True, slots=True)
class ParkedFile:
    """A staged file: ``name`` in the sandbox, and ``number`` in the directory or a URL, if it has content."""

    name: str
    mode: int
    size: int
    number: int | None
    url: str | None
    directory: bool


@dataclass(frozen=True, slots=True)
class Parked:
    """A staged directory: its account, the report of the run's end, and the files."""

    name: str
    uid: int
    request: Request
    use: str
    files: tuple[ParkedFile, ...]
    failure: TransferFailure | None
    seconds: float
    #: number of the checkpoint, if the directory is one
    number: int | None = None
    #: directories that must be uploaded before this one
    after: tuple[str, ...] = ()


class OutputSpool:
    """The directory in which jobs' accounts stage outputs; files larger than ``most_bytes`` are not read."""

    def __init__(self, directory: Path, most_bytes: int = sys.maxsize) -> None:
        self.directory = directory
        self.most_bytes = most_bytes
        #: names of directories that can neither be moved aside nor deleted
        self._stuck: set[str] = set()

    def make(self) -> None:
        """Make the directory as the agent's account; raises FetchworkError."""
        Spool(str(self.directory)).make()

    def names(self, known: Set[str] = frozenset()) -> list[str]:
        """Return the directories with a manifest, oldest first; delete old ones without a manifest.

        ``known`` had one before: thousands of an account may wait, and each look costs a system call.
        """
        whole = []
        listed = {path.name for path in self.directory.iterdir()}
        self._stuck &= listed
        for name in sorted(listed - self._stuck - {BAD}):
            if name in known:
                whole.append(name)
                continue
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
        """Return the uid of a directory's account."""
        return (self.directory / name).lstat().st_uid

    def weigh(self, name: str) -> tuple[int, int]:
        """Return a directory's uid and the bytes of its files, without reading its manifest."""
        uid = self.account(name)
        try:
            with os.scandir(self.directory / name) as entries:
                return uid, sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except NotADirectoryError:
            # read() will report it
            return uid, 0

    def is_there(self, name: str, uid: int) -> bool:
        """Whether this directory of this account waits to be uploaded."""
        with contextlib.suppress(OSError):
            return name not in self._stuck and self.account(name) == uid
        return False

    def is_stuck(self, name: str) -> bool:
        """Whether a directory was set aside but could not be moved."""
        return name in self._stuck

    def was_set_aside(self, name: str) -> bool:
        """Whether a directory was set aside."""
        return name in self._stuck or (self.directory / BAD / name).exists()

    def read(self, name: str) -> Parked:
        """Return a directory's content; raises ProtocolError if a check fails."""
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
            raise ProtocolError(f"its manifest can't be read: {type(error).__name__}") from None
        if use not in _REPORTS[request.name] or (use == "checkpoint" and number is None):
            raise ProtocolError("its manifest names no use")
        # only names before its own, so that no directory waits for itself
        earlier = tuple(other for other in after[-MAX_AFTER:] if DIRECTORY.fullmatch(other) and other < name)
        return Parked(name, status.st_uid, request, use, files, failure, seconds, number, earlier)

    def open(self, parked: Parked, number: int) -> int:
        """Return a descriptor of one of the files; raises ProtocolError if a check fails, and OSError.

        A file that is too large is refused by its size alone: a sparse file may have any size.
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
        """Delete a directory that was uploaded or is not wanted; if it can't be deleted, set it aside."""
        path = self.directory / name
        try:
            if stat.S_ISDIR(path.lstat().st_mode):
                # works by descriptors, so a link that the account puts in a file's place is not followed
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            pass
        except (OSError, RecursionError):
            # its account may have closed it, or nested it too deeply
            self._stuck.add(name)

    def set_aside(self, name: str) -> None:
        """Move a bad directory aside; it is kept for a while and not read again."""
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
    for entry in listed:
        name, mode, size = str(entry["name"]), int(entry["mode"]) & 0o777, int(entry.get("size", 0))
        if names.problem_of(name) or size < 0:
            raise ValueError(name)
        number = entry.get("file")
        url = entry.get("url")
        if number is not None and (type(number) is not int or not 0 <= number < MAX_FILES):
            raise ValueError(number)
        yield ParkedFile(
            name, mode, size, number, str(url) if url is not None else None, entry.get("directory") is True
        )


def _number(value: object) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value < 2**31):
        raise ValueError(value)
    return value


def _failure(fields: dict[str, Any] | None) -> TransferFailure | None:
    if fields is None:
        return None
    code = int(fields["code"])
    if code not in (12, 33):
        raise ValueError(code)
    return TransferFailure(code, int(fields["subcode"]), str(fields["reason"]))
