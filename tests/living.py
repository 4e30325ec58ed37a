"""The files of a directory that others work in: what goes while one looks is as good as never there."""

import os
from collections.abc import Iterator
from pathlib import Path


def directories(directory: Path) -> Iterator[Path]:
    """The directory, and all below it."""
    # os.walk passes over what it cannot open; Path.rglob fails at what has gone since it was listed
    for path, _, _ in os.walk(directory):
        yield Path(path)


def files(directory: Path) -> Iterator[Path]:
    """The files below a directory; each may have gone already."""
    for path, _, names in os.walk(directory):
        yield from (Path(path, name) for name in names)


def content(path: Path) -> bytes:
    """What is in a file; nothing in one that has gone, or that is no file to be read."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""
