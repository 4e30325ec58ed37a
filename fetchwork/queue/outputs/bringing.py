"""Delivers outputs to their destinations: all of a job's outputs or none, with the caller's rights.

Every file is written under a temporary name beside its destination and compared with its hash. Files are
renamed only once all of a job's files are complete. The temporary name is the same for each attempt for one
run, so the next attempt takes over the file of a killed one; two concurrent attempts wait for each other.
Names come from a host, which its job may have taken over: no link in such a name is followed, and no file
outside the destination is reached. Paths that the submitter wrote (Out, Err and targets of remaps) may lead
anywhere he may write.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import posixpath
import stat
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fetchwork.db.calls.call import JsonObject
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.queue.outputs.destinations import Destination, TransferFailed, destination
from fetchwork.queue.reading.views import Json
from fetchwork.sandbox.names import STDERR, STDOUT

__all__ = ["Want", "bring"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Want:
    """The next chunk that is needed."""

    content_id: int
    n: int


#: asks for chunks, is sent them (None: it does not exist), and returns the number of bytes delivered
Bringing: TypeAlias = Generator[Want, bytes | None, int]


@dataclass
class _Placed:
    """A complete file that is not at its destination yet."""

    directory: int
    temporary: str
    name: str
    path: str


def bring(ad: Json, run_id: int, files: Sequence[JsonObject]) -> Bringing:
    """Steps: deliver all outputs of a job's run to their destinations; else TransferFailed, and none.

    Directories are made first, so a directory of a failed attempt may stay.
    """
    with contextlib.ExitStack() as stack:
        written: list[_Placed] = []
        changed: set[int] = set()
        brought = 0
        # directories before their contents
        for file in sorted(files, key=lambda file: (not file["name"].endswith("/"), file["name"])):
            if file["source"] == "url":
                # a plugin uploaded it elsewhere
                continue
            target = destination(ad, file["name"])
            if target is None:
                continue
            with _failing(target.path):
                directory, name = _opened(target, stack)
                if file["name"].endswith("/"):
                    _make(directory, name, file["mode"], follow=target.own)
                    changed.add(directory)
                    continue
                if _is_special(directory, name, follow=target.own) and target.own:
                    yield from _into_special(directory, name, file)
                    continue
                temporary = f".{name[:200]}.fetchwork-{run_id}"
                descriptor = _begun(directory, temporary, stack)
                stack.callback(_drop, directory, temporary, descriptor)
                yield from _written(descriptor, file)
                if file["name"] not in (STDOUT, STDERR):
                    os.fchmod(descriptor, file["mode"] & 0o777 & ~_umask())
                os.fsync(descriptor)
                written.append(_Placed(directory, temporary, name, target.path))
                brought += file["size"]
        for one in written:
            with _failing(one.path):
                os.rename(one.temporary, one.name, src_dir_fd=one.directory, dst_dir_fd=one.directory)
            changed.add(one.directory)
        for number in changed:
            # some file systems do not support it, and the renamed files are there
            with contextlib.suppress(OSError):
                os.fsync(number)
    return brought


@contextlib.contextmanager
def _failing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransferFailed(
            f"writing to file {path}: (errno {error.errno}) {error.strerror}", error.errno or 0
        ) from None


def _opened(target: Destination, stack: contextlib.ExitStack) -> tuple[int, str]:
    """The open directory that a file goes to, and the file's name in it."""
    if target.own:
        # a file that the submitter named may be his own link to another file
        path = target.path.rstrip("/")
        if not target.name.endswith("/"):
            path = os.path.realpath(path)
        directory = os.open(posixpath.dirname(path), _DIRECTORY)
        stack.callback(os.close, directory)
        return directory, posixpath.basename(path)
    directory = os.open(target.directory, _DIRECTORY)
    stack.callback(os.close, directory)
    *parents, name = target.name.rstrip("/").split("/")
    for parent in parents:
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, dir_fd=directory)
        directory = os.open(parent, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        stack.callback(os.close, directory)
    return directory, name


def _make(directory: int, name: str, mode: int, *, follow: bool) -> None:
    try:
        os.mkdir(name, mode & 0o777 | 0o700, dir_fd=directory)
    except FileExistsError:
        found = os.stat(name, dir_fd=directory, follow_symlinks=follow)
        if not stat.S_ISDIR(found.st_mode):
            raise


def _is_special(directory: int, name: str, *, follow: bool) -> bool:
    """Whether it is a device or a pipe, to be written to and not replaced. Raises OSError for a directory."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=follow).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return not stat.S_ISREG(mode)


def _into_special(directory: int, name: str, file: JsonObject) -> Generator[Want, bytes | None, None]:
    # O_NONBLOCK: a pipe without a reader is an error; do not wait for one
    descriptor = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield from _written(descriptor, file)
    finally:
        os.close(descriptor)


def _begun(directory: int, temporary: str, stack: contextlib.ExitStack) -> int:
    """The temporary file, empty and locked: no other attempt is writing it or has just renamed it."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=directory)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            there = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if there is not None and (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino):
            stack.callback(os.close, descriptor)
            os.ftruncate(descriptor, 0)
            return descriptor
        os.close(descriptor)


def _drop(directory: int, temporary: str, descriptor: int) -> None:
    """Delete a temporary file that was not renamed."""
    with contextlib.suppress(OSError):
        mine = os.fstat(descriptor)
        there = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
            os.unlink(temporary, dir_fd=directory)


def _written(descriptor: int, file: JsonObject) -> Generator[Want, bytes | None, None]:
    whole = hashlib.sha256()
    for n in range(-(-file["size"] // CHUNK_BYTES)):
        data = yield Want(file["content_id"], n)
        if data is None:
            raise TransferFailed(
                f"output '{file['name']}' is not there any more: it was delivered, or replaced",
                errno.ENOENT,
            )
        whole.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    if whole.hexdigest() != file["sha256"]:
        raise TransferFailed(f"output '{file['name']}' does not match its hash", errno.EIO)


def _umask() -> int:
    # os.umask reads the mask only by changing it, for all threads
    with open("/proc/self/status") as status:  # noqa: PTH123
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o022)
