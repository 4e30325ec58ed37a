"""Where the outputs of a job belong on its submitter's machine, by HTCondor's rules; no file is touched here.

``transfer_output_remaps`` are HTCondor's (filename_tools_cpp.cpp): the whole name first, then its directory,
and what comes of it is looked up again. They do not count beside ``output_destination``.
"""

from __future__ import annotations

import errno
import posixpath
from dataclasses import dataclass

from fetchwork.errors import FetchworkError
from fetchwork.queue.inputs import is_url
from fetchwork.queue.views import Json

__all__ = ["Destination", "TransferFailed", "destination", "remapped"]

#: the names of standard output and error in a sandbox
STDOUT = "_condor_stdout"
STDERR = "_condor_stderr"
#: HTCondor's MAX_REMAP_RECURSIONS
_DEEPEST = 128


class TransferFailed(FetchworkError):
    """Outputs that could not be brought to where they belong; ``errno`` says why, as a hold's subcode."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a file belongs."""

    #: absolute; in the submitter's own words, so it may lead anywhere he may go
    directory: str
    #: below it
    name: str
    #: these are his own words, too; else its parts come from a host, and none that is a link may be followed
    own: bool = False

    @property
    def path(self) -> str:
        """The whole."""
        return posixpath.join(self.directory, self.name)


def destination(ad: Json, name: str) -> Destination | None:
    """Where the file of a sandbox belongs; None where nobody wants it here.

    Raises TransferFailed for a remap without an end, and for a name that no host may give.
    """
    iwd = str(ad.get("Iwd") or "/")
    if name in (STDOUT, STDERR):
        which, wanted = ("Out", "TransferOut") if name == STDOUT else ("Err", "TransferErr")
        target = ad.get(which)
        if not isinstance(target, str) or target in ("", "/dev/null") or ad.get(wanted) is False:
            return None
        return _named(iwd, target, "")
    # the database refuses others; this is the machine that would be hurt
    parts = name.rstrip("/").split("/")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise TransferFailed(
            f"an output is called '{name}'; allowed: a relative path without '..'", errno.EPERM
        )
    moved = None
    if not ad.get("OutputDestination"):
        moved = remapped(str(ad.get("TransferOutputRemaps") or ""), name.rstrip("/"))
    if moved is None:
        return Destination(iwd, name)
    return _named(iwd, *moved, slash="/" if name.endswith("/") else "")


def _named(iwd: str, target: str, rest: str, *, slash: str = "") -> Destination | None:
    """A path of the submitter's own words, and what a host says below it."""
    if is_url(target):
        return None
    path = posixpath.join(iwd, target)
    if rest:
        return Destination(path, rest + slash)
    directory, last = posixpath.split(path.rstrip("/"))
    return Destination(directory or "/", last + slash, own=True)


def remapped(remaps: str, name: str) -> tuple[str, str] | None:
    """What a name becomes: a target, and what of the name goes below it ('': nothing).

    None where no remap speaks of it. Raises TransferFailed for a circle.
    """
    return _find(_pairs(remaps), name, 0)


def _find(pairs: dict[str, str], name: str, depth: int) -> tuple[str, str] | None:
    if depth > _DEEPEST:
        raise TransferFailed(
            f"transfer_output_remaps lead in a circle at '{name}'; allowed: remaps with an end", errno.ELOOP
        )
    if name in pairs:
        target = pairs[name]
        further = None if is_url(target) else _find(pairs, target, depth + 1)
        return (target, "") if further is None else further
    directory, _, last = name.rpartition("/")
    if not directory:
        return None
    moved = _find(pairs, directory, depth + 1)
    return None if moved is None else (moved[0], posixpath.join(moved[1], last))


def _pairs(remaps: str) -> dict[str, str]:
    """``name=target`` with ``;`` between them; a backslash before ``;``, ``=`` or another is left out."""
    pairs: dict[str, str] = {}
    parts = [""]
    escaped = False

    def keep() -> None:
        if len(parts) > 1:
            # of one name the first counts
            pairs.setdefault(parts[0].strip(), parts[1].strip())

    for letter in remaps:
        if escaped:
            parts[-1] += letter if letter in "\\;=" else "\\" + letter
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == "=" and len(parts) == 1:
            parts.append("")
        elif letter == ";":
            keep()
            parts = [""]
        else:
            parts[-1] += letter
    keep()
    return pairs
