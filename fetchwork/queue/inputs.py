"""Which files jobs need, by HTCondor's rules for ``transfer_input_files`` (file_transfer.cpp).

A relative name is relative to Iwd, and lands in the sandbox under its last part, or with
``preserve_relative_paths`` under all of it. A directory ``d`` lands as ``d`` with what is in it, of ``d/``
what is in it. A link to a file is that file; one to a directory has to be written with a slash at its end.
Of one name the later counts; sockets and pipes are passed over. URLs stay URLs.
"""

from __future__ import annotations

import dataclasses
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from fetchwork.errors import SubmitError
from fetchwork.queue.jobads import Jobs
from fetchwork.queue.views import Json

__all__ = ["InputFile", "Needed", "is_url", "needed", "shared_directories"]

#: attributes that decide which files a job needs
_DECIDE = frozenset(
    {
        *("Cmd", "In", "Iwd", "TransferExecutable", "TransferIn", "ShouldTransferFiles", "TransferInput"),
        *("PublicInputFiles", "PreserveRelativePaths", "TransferPlugins", "OutputDestination"),
        "TransferOutputRemaps",
    }
)
#: names the directories that this machine shares with the execute hosts, as PATH names its own
VARIABLE = "FETCHWORK_SHARED"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file or directory of a sandbox: its name there, and where it comes from."""

    #: a directory's ends in "/"
    name: str
    #: on this machine; None for a URL
    path: str | None
    url: str | None = None
    #: the bits of chmod
    mode: int = 0o644


@dataclass(frozen=True)
class Needed:
    """Jobs whose ads say what matching knows of their files, and these files."""

    jobs: Jobs
    #: of all jobs of the cluster
    common: Sequence[InputFile]
    #: of one job, by its number
    own: Mapping[int, Sequence[InputFile]]

    @property
    def files(self) -> bool:
        """Do they need any?"""
        return bool(self.common or self.own)

    def paths(self) -> set[str]:
        """The files that are to be read, each once."""
        return {
            one.path
            for files in [self.common, *self.own.values()]
            for one in files
            if one.path is not None and not one.name.endswith("/")
        }


def is_url(name: str) -> bool:
    """Is it a URL for HTCondor (``IsUrl``): a scheme, and ``://``?"""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", name) is not None


def shared_directories() -> list[str]:
    """The directories that this machine shares with all execute hosts; everything, unless said otherwise.

    ``FETCHWORK_SHARED`` names them with colons between them; empty means none.
    """
    named = os.environ.get(VARIABLE, "/")
    return [posixpath.normpath(one) for one in named.split(":") if one.startswith("/")]


def needed(jobs: Jobs, shared: Sequence[str]) -> Needed:
    """The files of jobs, and the jobs with ``FetchWorkFiles`` where they have any (files/FILES.md).

    Raises SubmitError for a file that can't be read or kept under its name.
    """
    own = list(jobs.own)
    files = _Files(shared)
    first, first_files = files.of({**jobs.common, **(own[0] if own else {})})
    if not any(part.keys() & _DECIDE for part in own):
        return Needed(Jobs(_with(jobs.common, first), own), first_files, {})
    each = [files.of({**jobs.common, **part}) for part in own]
    alike = set(first_files).intersection(*(found for _, found in each))
    common = [one for one in first_files if one in alike]
    rest = {
        number: [one for one in found if one not in alike]
        for number, (_, found) in enumerate(each)
        if len(found) > len(common)
    }
    if all(says == first for says, _ in each):
        return Needed(Jobs(_with(jobs.common, first), own), common, rest)
    parts = [_with(part, says) for part, (says, _) in zip(own, each, strict=True)]
    return Needed(Jobs(jobs.common, parts), common, rest)


def _with(ad: Json, says: str | None) -> Json:
    return ad if says is None else {**ad, "FetchWorkFiles": says}


class _Files:
    """The files of one job after the other; each path is looked at once."""

    def __init__(self, shared: Sequence[str]) -> None:
        self._shared = [one.rstrip("/") + "/" for one in shared]
        self._seen: dict[tuple[str, str, bool], list[InputFile]] = {}

    def of(self, ad: Json) -> tuple[str | None, list[InputFile]]:
        """What the ad has to say as FetchWorkFiles, and the files to keep for the job."""
        says = self._says(ad)
        if says is None or says.startswith("shared:"):
            return says, []
        found: dict[str, InputFile] = {}
        for one in self._all(ad):
            # the later wins, at its own place
            found.pop(one.name, None)
            found[one.name] = one
        return says, list(found.values())

    def _says(self, ad: Json) -> str | None:
        should = _text(ad, "ShouldTransferFiles") or "IF_NEEDED"
        if should.upper() == "NO":
            return None
        if should.upper() == "YES" or any(is_url(name) for name in _names(ad)) or _leaves_for_url(ad):
            return "sandbox"
        paths = [_text(ad, "Iwd") or "/", *(_absolute(ad, name) for name in _names(ad))]
        if not all(self._is_shared(path) for path in paths):
            return "stored"
        if self._shared == ["/"]:
            return None
        return "shared:" + ",".join(one.rstrip("/") for one in self._shared)

    def _is_shared(self, path: str) -> bool:
        return any((posixpath.normpath(path) + "/").startswith(one) for one in self._shared)

    def _all(self, ad: Json) -> Iterator[InputFile]:
        preserve = ad.get("PreserveRelativePaths") is True
        for name in _transferred(ad):
            yield from self._expanded(ad, name, preserve)
        for plugin in _plugins(ad):
            yield from map(_runnable, self._expanded(ad, plugin, False))
        if (stdin := _stdin(ad)) is not None:
            yield from self._expanded(ad, stdin, False)
        if (executable := _executable(ad)) is not None:
            yield from map(_runnable, self._expanded(ad, executable, False))

    def _expanded(self, ad: Json, name: str, preserve: bool) -> list[InputFile]:
        if is_url(name):
            last = posixpath.basename(unquote(urlsplit(name).path))
            if not last:
                raise SubmitError(f"input '{name}' has no file name; allowed: a URL that ends in one")
            return [InputFile(last, None, name)]
        key = (_text(ad, "Iwd") or "", name, preserve)
        if key not in self._seen:
            self._seen[key] = list(_expand(_absolute(ad, name), name, preserve))
        return self._seen[key]


def _expand(path: str, name: str, preserve: bool) -> Iterator[InputFile]:
    try:
        found = os.stat(path)  # noqa: PTH116 - names with a slash at their end
        is_link = os.path.islink(path)  # noqa: PTH114
    except OSError as error:
        raise _unreadable(path, error) from None
    parents: list[InputFile] = []
    prefix = ""
    if preserve and not name.startswith("/"):
        parents = list(_parents(path, name))
        prefix = parents[-1].name if parents else ""
    last = posixpath.basename(posixpath.normpath(name))
    if not stat.S_ISDIR(found.st_mode):
        yield from parents
        if stat.S_ISREG(found.st_mode):
            yield _file(prefix + last, path, found)
        return
    if name.endswith("/"):
        # what is in it, at the top; with its own path where that is kept
        yield from parents
        if prefix:
            prefix += f"{last}/"
            yield InputFile(prefix, path, mode=stat.S_IMODE(found.st_mode))
        yield from _tree(path.rstrip("/"), prefix)
        return
    if is_link:
        raise SubmitError(
            f"input '{path}' is a link to a directory; allowed: with a slash at its end, for what is in it"
        )
    yield from parents
    yield InputFile(f"{prefix}{last}/", path, mode=stat.S_IMODE(found.st_mode))
    yield from _tree(path, f"{prefix}{last}/")


def _tree(path: str, prefix: str) -> Iterator[InputFile]:
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        for entry in entries:
            found = entry.stat()
            name = prefix + entry.name
            if stat.S_ISREG(found.st_mode):
                yield _file(name, entry.path, found)
            elif stat.S_ISDIR(found.st_mode) and entry.is_symlink():
                raise SubmitError(
                    f"input '{entry.path}' is a link to a directory; allowed: files and links to files"
                )
            elif stat.S_ISDIR(found.st_mode):
                yield InputFile(f"{name}/", entry.path, mode=stat.S_IMODE(found.st_mode))
                yield from _tree(entry.path, f"{name}/")
    except OSError as error:
        raise _unreadable(error.filename or path, error) from None


def _file(name: str, path: str, found: os.stat_result) -> InputFile:
    if not os.access(path, os.R_OK):
        raise SubmitError(f"cannot open input '{path}': Permission denied")
    return InputFile(name, path, mode=stat.S_IMODE(found.st_mode) & 0o777)


def _runnable(file: InputFile) -> InputFile:
    return dataclasses.replace(file, mode=0o755)


def _parents(path: str, name: str) -> Iterator[InputFile]:
    """The directories above a relative name, with their modes."""
    parts = [part for part in name.rstrip("/").split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SubmitError(
            f"input '{name}' leaves Iwd; allowed with preserve_relative_paths: a name without '..'"
        )
    above = path.rstrip("/")
    modes = []
    for _ in parts[1:]:
        above = posixpath.dirname(above)
        modes.append((above, stat.S_IMODE(os.stat(above).st_mode)))  # noqa: PTH116
    for depth, (directory, mode) in enumerate(reversed(modes), 1):
        yield InputFile("/".join(parts[:depth]) + "/", directory, mode=mode)


def _unreadable(path: str, error: OSError) -> SubmitError:
    return SubmitError(f"cannot open input '{path}': {error.strerror}")


def _text(ad: Json, name: str) -> str | None:
    value = ad.get(name)
    return value if isinstance(value, str) else None


def _list(ad: Json, name: str) -> Iterable[str]:
    return filter(None, (one.strip() for one in (_text(ad, name) or "").split(",")))


def _transferred(ad: Json) -> Iterator[str]:
    yield from _list(ad, "TransferInput")
    yield from _list(ad, "PublicInputFiles")


def _plugins(ad: Json) -> Iterator[str]:
    for one in (_text(ad, "TransferPlugins") or "").split(";"):
        _, equals, path = one.partition("=")
        if equals and path.strip():
            yield path.strip()


def _stdin(ad: Json) -> str | None:
    name = _text(ad, "In")
    return None if name in (None, "", "/dev/null") or ad.get("TransferIn") is False else name


def _executable(ad: Json) -> str | None:
    return None if ad.get("TransferExecutable") is False else _text(ad, "Cmd")


def _names(ad: Json) -> Iterator[str]:
    yield from _transferred(ad)
    yield from _plugins(ad)
    yield from filter(None, (_stdin(ad), _executable(ad)))


def _leaves_for_url(ad: Json) -> bool:
    """Do outputs go to a URL, which only a sandbox's do?"""
    remaps = (_text(ad, "TransferOutputRemaps") or "").split(";")
    targets = [one.partition("=")[2].strip() for one in remaps]
    return any(is_url(one) for one in [*targets, _text(ad, "OutputDestination") or ""])


def _absolute(ad: Json, name: str) -> str:
    return posixpath.join(_text(ad, "Iwd") or "/", name)
