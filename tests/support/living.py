"""The files of a directory that other processes change: a file that vanishes meanwhile counts as absent."""

import os
from collections.abc import Iterator
from pathlib import Path


def directories(directory: Path) -> Iterator[Path]:
    """The directory, and all directories below it."""
    # os.walk skips directories that it cannot open; Path.rglob fails at one that has vanished since it was
    # listed
    for path, _, _ in os.walk(directory):
        yield Path(path)


def files(directory: Path) -> Iterator[Path]:
    """The files below a directory; each may have vanished already."""
    for path, _, names in os.walk(directory):
        yield from (Path(path, name) for name in names)


def content(path: Path) -> bytes:
    """A file's content; empty if the file has vanished or is not readable."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""
