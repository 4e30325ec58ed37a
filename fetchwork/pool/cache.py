"""The cache folder, which keeps parts of pools that take long to make.

An entry is a directory that is never changed. It is built under another name and renamed when it is whole, so
an entry that exists is complete, and a lock makes two builders of one entry take turns. Beside it lies its
manifest, a line for each file with its owner, mode, size and time. An entry that differs from its manifest
was changed, and is made again.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
MANIFEST = ".manifest"

Say = Callable[[str], None]


def cache_directory() -> Path:
    """Return the cache folder, made if it does not exist; every account may read it."""
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


def cached(name: str, build: Callable[[Path], None], say: Say = lambda _: None) -> Path:
    """The cache entry ``name``; if it is not there ``build`` fills the directory that it is given.

    A changed entry is put aside and made again; ``say`` gets a line about it. An exception of
    ``build`` is raised here, and leaves no entry.
    """
    entry = cache_directory() / name
    if entry.is_dir() and spoiled(entry) is None:
        return entry
    with _lock(entry):
        if entry.is_dir():
            change = spoiled(entry)
            if change is None:  # another builder was first
                return entry
            aside = _free_name(entry)
            say(f"'{entry}' was spoiled: {change}; making it anew (the old one is '{aside}': delete it)")
            entry.rename(aside)
        partial = entry.with_name(name + PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)  # of a builder that was killed: the lock says it is gone
        partial.mkdir()
        partial.chmod(0o755)
        try:
            build(partial)
            _manifest_of(entry).write_text(manifest(partial), errors="surrogateescape")
            partial.rename(entry)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return entry


def manifest(directory: Path) -> str:
    """A line for each file and directory below ``directory``, in an order that is always the same."""
    return "".join(f"{line}\n" for line in sorted(_describe(directory, "")))


def spoiled(entry: Path) -> str | None:
    """Return the difference between an entry and its manifest; None if they agree."""
    try:
        made = _manifest_of(entry).read_text(errors="surrogateescape")
    except FileNotFoundError:
        return "an older fetchwork made it, whose pools could change it"
    now = manifest(entry)
    if now == made:
        return None
    different = sorted({*now.splitlines()} ^ {*made.splitlines()})
    return f"'{different[0].partition(chr(0))[0]}' is not as it was made"


def _describe(directory: Path, below: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for each in entries:
            path = f"{below}/{each.name}"
            status = each.stat(follow_symlinks=False)
            words = [path, f"{status.st_mode:o}", f"{status.st_uid}:{status.st_gid}"]
            if stat.S_ISDIR(status.st_mode):
                yield from _describe(Path(each.path), path)
            else:
                words += [str(status.st_size), str(status.st_mtime_ns)]
            # no name has a NUL in it, and names with line breaks are shown as Python would
            yield "\0".join(words).replace("\n", "\\n")


def _manifest_of(entry: Path) -> Path:
    return entry.with_name(entry.name + MANIFEST)


def _free_name(entry: Path) -> Path:
    number = 1
    while (aside := entry.with_name(f"{entry.name}.spoiled-{number}")).exists():
        number += 1
    return aside


@contextmanager
def _lock(entry: Path) -> Iterator[None]:
    with entry.with_name(entry.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def marks() -> dict[str, str]:
    """Variables that every process of a pool keeps: by them a run of tests finds and ends its processes."""
    return {name: value for name, value in os.environ.items() if name.startswith("FETCHWORK_TEST_")}
