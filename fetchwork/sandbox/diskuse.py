"""What the files below a directory take of its disk, counted in blocks, as the account that asks.

The directory is a job's, and so may be made to be as large, deep and odd as can be: no link is followed,
no other file system entered, and nothing opened but directories. What was counted within the bounds is told.
"""

import os
import stat
import time

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

    At least these: it looks at MOST_ENTRIES, and none after the monotonic time ``end``. It takes a descriptor
    for each level that it is in, and one more.
    """
    top = os.open(".", _DIRECTORY, dir_fd=directory)
    count = _Count(os.fstat(top).st_dev, end)
    # directories that are open, each with the names of those below it that are still to be looked at
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
                # it has gone, or is not this account's to read
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
    """The bytes of what was looked at on one file system; ``over`` when it is enough."""

    def __init__(self, device: int, end: float) -> None:
        self._device = device
        self._end = end
        self._looked = 0
        self._counted: set[int] = set()
        self.size = 0
        self.over = False

    def add_entries(self, directory: int, names: list[str]) -> None:
        """Count the files of a directory, and add the names of the directories that are in it."""
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
