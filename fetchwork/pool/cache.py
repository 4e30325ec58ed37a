"""The cache folder: what a pool needs and takes long to make is made once and kept.

An entry is a directory. It is built under another name and renamed when it is whole, so that an entry that
exists is complete, and a lock makes two builders of one entry take turns.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"


def cache_directory() -> Path:
    """The cache folder, made if it is not there; every account may look into it."""
    named = os.environ.get("FETCHWORK_CACHE")
    if named:
        folder = Path(named).absolute()
    elif os.geteuid() == 0:
        folder = Path("/var/cache/fetchwork")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        folder = Path(home).expanduser() / "fetchwork"
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    return folder


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The cache entry ``name``; if it is not there ``build`` fills the directory that it is given.

    What ``build`` raises is raised here, and leaves no entry.
    """
    entry = cache_directory() / name
    if entry.is_dir():
        return entry
    with _lock(entry):
        if entry.is_dir():  # another builder was first
            return entry
        partial = entry.with_name(name + PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)  # of a builder that was killed: the lock says it is gone
        partial.mkdir()
        partial.chmod(0o755)
        try:
            build(partial)
            partial.rename(entry)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return entry


@contextmanager
def _lock(entry: Path) -> Iterator[None]:
    with entry.with_name(entry.name + ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
