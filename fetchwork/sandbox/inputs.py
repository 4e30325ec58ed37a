"""The files and directories of a job's list of input files, with their names in the sandbox.

The rules are those of ``ExpandFileTransferList``: ``d`` brings the directory, ``d/`` its content; with
preserve_relative_paths a relative name keeps its directories; a URL's file is named by the end of its path.
Of two files with the same name the later wins. Submit expands the list to store the files, and PREPARE_JOB on
a host that shares them; both run as the job's owner.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fetchwork.sandbox import names
from fetchwork.sandbox.failure import FileFailure, of_file, of_linked_directory, status_of

#: a deeper tree is a circle of links
_MAX_DEPTH = 128


class Input(NamedTuple):
    """One file, directory or URL: its ``name`` in the sandbox; its ``source``, an absolute path or the URL.

    ``mode`` has the permission bits, ``size`` the bytes, -1 for a directory and if the size is not known.
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
    """A job ad's input files without the executable, and with stdin if it is to be transferred."""
    listed = [*names.words_of(ad.get("TransferInput")), *names.words_of(ad.get("PublicInputFiles"))]
    stdin = ad.get("In")
    if isinstance(stdin, str) and stdin not in ("", names.NULL_FILE) and ad.get("TransferIn") is not False:
        listed.append(stdin)
    return listed


def executable_of(ad: Mapping[str, object]) -> str | None:
    """The path of the executable that is transferred with the job, None if the host has it."""
    cmd = ad.get("Cmd")
    return cmd if isinstance(cmd, str) and cmd and ad.get("TransferExecutable") is not False else None


def expand(listed: Iterable[str], iwd: str, *, preserve: bool = False) -> list[Input]:
    """The inputs of a list of names, each name once; raises FileFailure for a file that can't be read."""
    inputs: dict[str, Input] = {}
    for name in listed:
        for item in _expand_name(name, iwd, preserve):
            # a file may not be where a directory is, nor the other way round: the later wins
            inputs.pop(item.name, None)
            inputs[item.name] = item
    # a directory before its content, URLs last
    return sorted(inputs.values(), key=lambda item: (item.is_url, not item.directory))


def _expand_name(name: str, iwd: str, preserve: bool) -> Iterator[Input]:
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
            # sockets and pipes are left out
            yield _file(name, inner, status)


def _file(name: str, path: str, status: os.stat_result) -> Input:
    return Input(name, path, stat.S_IMODE(status.st_mode), status.st_size)
