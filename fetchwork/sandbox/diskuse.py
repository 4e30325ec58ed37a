"""What the files below a directory take of its disk, counted in blocks, as the account that asks.

The directory is a job's, and so may be made to be as large, deep and odd as can be: no link is followed,
no other file system entered, and nothing opened but directories. What was counted within the bounds is told.
"""

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import _ScandirIterator

#: entries that are looked at, some 2 s on a slow machine
MOST_ENTRIES = 200_000
#: directories within each other; what lies deeper is not counted
DEEPEST = 128
#: the clock is looked at after so many entries
_AT_ONCE = 256
_BLOCK = 512
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def used(directory: int, end: float) -> int:
    """The bytes of the plain files below a directory (a descriptor); of one with several names once.

    At least these: it looks at MOST_ENTRIES, and none after the monotonic time ``end``.
    """
    top = os.open(".", _DIRECTORY, dir_fd=directory)
    levels: list[tuple[int, _ScandirIterator[str]]] = [(top, os.scandir(top))]
    device = os.fstat(top).st_dev
    counted: set[int] = set()
    size = looked = 0
    try:
        while levels and looked < MOST_ENTRIES:
            level, entries = levels[-1]
            entry = next(entries, None)
            if entry is None:
                _close(levels)
                continue
            looked += 1
            if not looked % _AT_ONCE and time.monotonic() > end:
                break
            try:
                found = os.stat(entry.name, dir_fd=level, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and found.st_dev == device and len(levels) < DEEPEST:
                    below = os.open(entry.name, _DIRECTORY, dir_fd=level)
                    try:
                        levels.append((below, os.scandir(below)))
                    except OSError:
                        os.close(below)
                        raise
            except OSError:
                # it has gone, or is not this account's to read
                continue
            if stat.S_ISREG(found.st_mode) and found.st_ino not in counted:
                size += found.st_blocks * _BLOCK
                if found.st_nlink > 1:
                    counted.add(found.st_ino)
    finally:
        while levels:
            _close(levels)
    return size


def _close(levels: "list[tuple[int, _ScandirIterator[str]]]") -> None:
    directory, entries = levels.pop()
    entries.close()
    os.close(directory)
