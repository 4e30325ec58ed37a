"""What a job's list of input files comes to: each file and directory, and its name in the sandbox.

By the rules of ``ExpandFileTransferList``: ``d`` brings the directory, ``d/`` what is in it; with
preserve_relative_paths a relative name keeps its directories; a URL has the name that ends its path. Of two
files with one name the later wins. Run where the files are: by submit to store them, on a host that shares
them by PREPARE_JOB, each as the job's owner.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fetchwork.sandbox import names
from fetchwork.sandbox.failure import FileFailure, of_file, of_linked_directory, status_of

#: deeper than any tree that is no circle
_MAX_DEPTH = 128


class Input(NamedTuple):
    """One file, directory or URL: its ``name`` in the sandbox; its ``source``, an absolute path or the URL.

    ``mode`` has the permission bits, ``size`` the bytes, -1 of a directory and where it is not known.
    """

    name: str
    source: str
    mode: int = 0o644
    size: int = -1
    directory: bool = False

    @property
    def is_url(self) -> bool:
        """Whether a plugin fetches it."""
        return bool(names.scheme_of(self.source))


def of_job(ad: Mapping[str, object]) -> list[str]:
    """What a job ad lists as its inputs, but for the executable: files, and stdin if that is to travel."""
    listed = [*names.words_of(ad.get("TransferInput")), *names.words_of(ad.get("PublicInputFiles"))]
    stdin = ad.get("In")
    if isinstance(stdin, str) and stdin not in ("", names.NULL_FILE) and ad.get("TransferIn") is not False:
        listed.append(stdin)
    return listed


def executable_of(ad: Mapping[str, object]) -> str | None:
    """The path of the executable that travels with the job, None where the host has it."""
    cmd = ad.get("Cmd")
    return cmd if isinstance(cmd, str) and cmd and ad.get("TransferExecutable") is not False else None


def expand(listed: Iterable[str], iwd: str, *, preserve: bool = False) -> list[Input]:
    """All that a list of names brings, each name once; raises FileFailure for what can't be read."""
    found: dict[str, Input] = {}
    for name in listed:
        for one in _expand_one(name, iwd, preserve):
            # a file may not be where a directory is, nor the other way round: the later wins
            found.pop(one.name, None)
            found[one.name] = one
    # a directory before what is in it, URLs last
    return sorted(found.values(), key=lambda one: (one.is_url, not one.directory))


def _expand_one(name: str, iwd: str, preserve: bool) -> Iterator[Input]:
    if names.scheme_of(name):
        yield Input(names.name_of_url(name), name)
        return
    path = name if name.startswith("/") else os.path.join(iwd, name)
    relative = preserve and not name.startswith("/")
    into = os.path.dirname(os.path.normpath(name)) if relative else ""
    if into.split("/")[0] == "..":
        raise FileFailure(
            1, f"file {name} is outside of the job's directory, and its relative path is to be preserved"
        )
    contents = name.endswith("/")
    status = status_of(path)
    if stat.S_ISDIR(status.st_mode) and not contents and os.path.islink(path.rstrip("/")):
        raise of_linked_directory(path)
    if relative:
        yield from _parents(into, iwd)
    if not stat.S_ISDIR(status.st_mode):
        if stat.S_ISREG(status.st_mode):
            yield _file(os.path.join(into, names.base_name(name)), path, status)
        return
    if not contents or (relative and names.base_name(name) not in ("", ".")):
        into = os.path.join(into, names.base_name(name))
        yield Input(into, path, stat.S_IMODE(status.st_mode), directory=True)
    yield from _walk(path.rstrip("/") or "/", into, 0)


def _parents(into: str, iwd: str) -> Iterator[Input]:
    parts = [part for part in into.split("/") if part]
    for number in range(1, len(parts) + 1):
        directory = "/".join(parts[:number])
        path = os.path.join(iwd, directory)
        yield Input(directory, path, stat.S_IMODE(status_of(path).st_mode), directory=True)


def _walk(path: str, into: str, depth: int) -> Iterator[Input]:
    if depth > _MAX_DEPTH:
        raise of_file("reading from directory", path, 40)
    try:
        entries = sorted(os.listdir(path))
    except OSError as error:
        raise of_file("reading from directory", path, error) from None
    for entry in entries:
        inner, name = f"{path}/{entry}", f"{into}/{entry}" if into else entry
        status = status_of(inner)
        if stat.S_ISDIR(status.st_mode):
            if os.path.islink(inner):
                raise of_linked_directory(inner)
            yield Input(name, inner, stat.S_IMODE(status.st_mode), directory=True)
            yield from _walk(inner, name, depth + 1)
        elif stat.S_ISREG(status.st_mode):
            # sockets and pipes stay where they are
            yield _file(name, inner, status)


def _file(name: str, path: str, status: os.stat_result) -> Input:
    return Input(name, path, stat.S_IMODE(status.st_mode), status.st_size)
