"""Where the outputs of a job belong on its submitter's machine, by HTCondor's rules; no file is touched here.

``transfer_output_remaps`` (``sandbox.remaps``) do not count beside ``output_destination``.
"""

from __future__ import annotations

import errno
import posixpath
from dataclasses import dataclass

from fetchwork.errors import FetchworkError
from fetchwork.queue.views import Json
from fetchwork.sandbox import remaps
from fetchwork.sandbox.names import NULL_FILE, STDERR, STDOUT, scheme_of

__all__ = ["Destination", "TransferFailed", "destination", "remapped"]


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
        if not isinstance(target, str) or target in ("", NULL_FILE) or ad.get(wanted) is False:
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
        moved = remapped(ad.get("TransferOutputRemaps"), name.rstrip("/"))
    if moved is None:
        return Destination(iwd, name)
    return _named(iwd, *moved, slash="/" if name.endswith("/") else "")


def _named(iwd: str, target: str, rest: str, *, slash: str = "") -> Destination | None:
    """A path of the submitter's own words, and what a host says below it."""
    if scheme_of(target):
        return None
    path = posixpath.join(iwd, target)
    if rest:
        return Destination(path, rest + slash)
    directory, last = posixpath.split(path.rstrip("/"))
    return Destination(directory or "/", last + slash, own=True)


def remapped(remap: object, name: str) -> tuple[str, str] | None:
    """What a name becomes: a target, and what of the name goes below it ('': nothing).

    None where no remap speaks of it. Raises TransferFailed for a circle.
    """
    rules = remaps.parse(remap)
    own, rest = name, ""
    while own not in rules:
        own, slash, last = own.rpartition("/")
        if not slash:
            return None
        rest = posixpath.join(last, rest) if rest else last
    try:
        return str(remaps.find(rules, own)), rest
    except remaps.RemapLoop as error:
        raise TransferFailed(f"{error}; allowed: remaps with an end", errno.ELOOP) from None
