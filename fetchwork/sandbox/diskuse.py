"""Disk usage of the files below a directory, counted in blocks with the rights of the calling account.

The directory is a job's, which may make it as large, deep and odd as possible: the count follows no link,
enters no other file system, and opens only directories. Within its bounds the result may be too low.
"""

import os
import stat
import time

#: entries that are counted; they take some 2 s on a slow machine
MOST_ENTRIES = 200_000
#: levels of directories; deeper ones are not counted
DEEPEST = 128
#: entries between two readings of the clock
_AT_ONCE = 256
_BLOCK = 512
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def used(directory: int, end: float) -> int:
    """Bytes of the regular files below a directory descriptor; hard links count once.

    This is a lower bound: the count stops after MOST_ENTRIES and at the monotonic time ``end``. It uses a
    descriptor for each level, and one more.
    """
    top = os.open(".", _DIRECTORY, dir_fd=directory)
    count = _Count(os.fstat(top).st_dev, end)
    # the open directories, each with the names of its subdirectories that are still to be counted
    levels: list[tuple[int, list[str]]] = [(top, [])]
    try:
        count.add_entries(*levels[-1])
        while levels and not count.over:
            level, names = levels[-1]
            if not names:
                levels.pop()
                os.close(level)
                continue
            try:
                below = os.open(names.pop(), _DIRECTORY, dir_fd=level)
            except OSError:
                # it is gone, or this account may not read it
                continue
            levels.append((below, []))
            count.add_entries(below, levels[-1][1])
            if len(levels) == DEEPEST:
                levels[-1][1].clear()
    finally:
        for level, _ in levels:
            os.close(level)
    return count.size


class _Count:
    """The bytes of the entries counted so far on one file system; ``over`` when a bound is reached."""

    def __init__(self, device: int, end: float) -> None:
        self._device = device
        self._end = end
        self._looked = 0
        self._counted: set[int] = set()
        self.size = 0
        self.over = False

    def add_entries(self, directory: int, names: list[str]) -> None:
        """Count the files of a directory, and add the names of its subdirectories to ``names``."""
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    self._looked += 1
                    if not self._looked % _AT_ONCE and time.monotonic() > self._end:
                        self.over = True
                        return
                    self._add(directory, entry.name, names)
                    if self._looked >= MOST_ENTRIES:
                        self.over = True
                        return
        except OSError:
            return

    def _add(self, directory: int, name: str, names: list[str]) -> None:
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return
        if found.st_dev == self._device and stat.S_ISDIR(found.st_mode):
            names.append(name)
        elif stat.S_ISREG(found.st_mode) and found.st_ino not in self._counted:
            self.size += found.st_blocks * _BLOCK
            if found.st_nlink > 1:
                self._counted.add(found.st_ino)
