"""The destinations of a job's outputs on its submitter's machine, by HTCondor's rules; touches no file.

``transfer_output_remaps`` (``sandbox.remaps``) are ignored if there is an ``output_destination``.
"""

from __future__ import annotations

import errno
import posixpath
from dataclasses import dataclass

from fetchwork.errors import FetchworkError
from fetchwork.queue.reading.views import Json
from fetchwork.sandbox import remaps
from fetchwork.sandbox.names import NULL_FILE, STDERR, STDOUT, scheme_of

__all__ = ["Destination", "TransferFailed", "destination", "remapped"]


class TransferFailed(FetchworkError):
    """Outputs could not be delivered; ``errno`` is the cause, like a hold's subcode."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a file."""

    #: absolute; written by the submitter, so it may lead anywhere he may go
    directory: str
    #: relative to the directory
    name: str
    #: whether the submitter wrote the name, too; else it comes from a host, and links in it are not followed
    own: bool = False

    @property
    def path(self) -> str:
        """The whole path."""
        return posixpath.join(self.directory, self.name)


def destination(ad: Json, name: str) -> Destination | None:
    """The destination of a sandbox file; None if it is not wanted here.

    Raises TransferFailed for a circular remap, and for a name that a host must not give.
    """
    iwd = str(ad.get("Iwd") or "/")
    if name in (STDOUT, STDERR):
        which, wanted = ("Out", "TransferOut") if name == STDOUT else ("Err", "TransferErr")
        target = ad.get(which)
        if not isinstance(target, str) or target in ("", NULL_FILE) or ad.get(wanted) is False:
            return None
        return _named(iwd, target, "")
    # the database refuses other names; this check protects the machine that would be harmed
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
    """The submitter's path, with the host's name below it."""
    if scheme_of(target):
        return None
    path = posixpath.join(iwd, target)
    if rest:
        return Destination(path, rest + slash)
    directory, last = posixpath.split(path.rstrip("/"))
    return Destination(directory or "/", last + slash, own=True)


def remapped(remap: object, name: str) -> tuple[str, str] | None:
    """A name's target by the remaps, and the part of the name that goes below it ('': none).

    None if no remap applies. Raises TransferFailed for a circular remap.
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
