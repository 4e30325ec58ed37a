"""Processes that other programs started: identified by pid and start time, never by name.

The kernel reuses a pid, but never with the same start time (in ticks since the boot). A process that is
recorded for longer than one boot may last is recorded with the boot's id.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# fields of /proc/PID/stat after the command name, which is in parentheses and may hold any character
_STATE, _PARENT, _START_TICKS = 0, 1, 19


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this boot."""

    pid: int
    start_ticks: int

    @classmethod
    def find(cls, pid: int) -> Process | None:
        """The process that has this pid now."""
        fields = _stat(pid)
        return cls(pid, int(fields[_START_TICKS])) if fields else None

    @classmethod
    def of_key(cls, key: str | None) -> Process | None:
        """The process that a ``key`` names; None if it is not a key."""
        if key is None:
            return None
        pid, _, start_ticks = key.partition(":")
        if not all(word.isascii() and word.isdigit() for word in (pid, start_ticks)):
            return None
        return cls(int(pid), int(start_ticks))

    @property
    def key(self) -> str:
        """The process as the database stores it for the length of a run: "pid:start time"."""
        return f"{self.pid}:{self.start_ticks}"

    @classmethod
    def parse(cls, text: str) -> Process | None:
        """The process that ``str()`` wrote down; None if that was before the last boot."""
        pid, start_ticks, boot = text.split()
        return cls(int(pid), int(start_ticks)) if boot == boot_id() else None

    def __str__(self) -> str:
        return f"{self.pid} {self.start_ticks} {boot_id()}"

    @property
    def alive(self) -> bool:
        """Whether the process still runs; a zombie does not."""
        fields = _stat(self.pid)
        return bool(fields) and int(fields[_START_TICKS]) == self.start_ticks and fields[_STATE] not in "ZX"

    @property
    def stopped(self) -> bool:
        """Whether the process is stopped, as by SIGSTOP."""
        fields = _stat(self.pid)
        return bool(fields) and fields[_STATE] in "Tt"

    @property
    def parent(self) -> Process | None:
        """The process that started it: a starter's hook has the starter. None if init has adopted it."""
        fields = _stat(self.pid)
        parent = int(fields[_PARENT]) if fields else 0
        return Process.find(parent) if parent > 1 else None

    @property
    def owner(self) -> int | None:
        """The account that it runs as (its real uid); None if it has ended."""
        lines = _read(self.pid, "status").decode(errors="replace").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("Uid:")), None)

    @property
    def started_at(self) -> float | None:
        """The start time in seconds since the epoch, accurate to about a second."""
        for line in _read("", "stat").decode().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1]) + self.start_ticks / os.sysconf("SC_CLK_TCK")
        return None

    @property
    def command(self) -> list[str]:
        """Its command line; empty if it has ended."""
        return _read(self.pid, "cmdline").decode(errors="replace").split("\0")[:-1]

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal unless the process has ended; with ``group`` to its process group, if it leads that.

        Raises OSError, above all PermissionError.
        """
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                # the descriptor pins the process that has the pid now: check its identity, then send
                if self.alive:
                    if group and os.getpgid(self.pid) == self.pid:
                        os.killpg(self.pid, number)
                    else:
                        signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; whether it has."""
        return wait_all([self], timeout_s)

    def works_in(self, directory: Path) -> bool:
        """Whether ``directory``, by any of its names, is its working directory; False if we may not know."""
        return _is(self.pid, "cwd", directory)

    @property
    def name(self) -> str:
        """The kernel's name for it: the first 15 characters of its program's name."""
        return _read(self.pid, "comm").decode(errors="replace").rstrip("\n")

    def mounts(self) -> dict[str, str]:
        """The sources of its mounts by directory, as seen from its own root; empty if it has ended."""
        lines = _read(self.pid, "mounts").decode("utf-8", "surrogateescape").splitlines()
        pairs = [[_without_escapes(word) for word in line.split(" ")[:2]] for line in lines]
        return {directory: source for source, directory in pairs}

    def environment(self) -> list[bytes]:
        """The environment at its start; empty if it has ended or we may not read it."""
        return _read(self.pid, "environ").split(b"\0")

    def children(self) -> list[Process]:
        """Its current children."""
        lists = [_read(f"{self.pid}/task/{thread}", "children") for thread in _threads(self.pid)]
        found = (Process.find(int(pid)) for one in lists for pid in one.split())
        return [child for child in found if child is not None] if self.alive else []


def family(process: Process) -> list[Process]:
    """A process and all its current descendants."""
    found = [process]
    for one in found:
        found += one.children()
    return found


def processes() -> Iterator[Process]:
    """Every process that we can see."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := Process.find(int(entry.name))):
            yield process


def wait_all(waited_for: Iterable[Process], timeout_s: float) -> bool:
    """Wait until all have ended; whether they have."""
    left = list(waited_for)
    deadline = time.monotonic() + timeout_s
    while left := [process for process in left if process.alive]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def account(*names: str) -> pwd.struct_passwd:
    """The first of these accounts that exists; raises LookupError."""
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise LookupError(f"none of these accounts exists: {', '.join(names)}")


def _threads(pid: int) -> list[str]:
    try:
        return [thread.name for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


def _is(pid: int, name: str, directory: Path) -> bool:
    try:
        # compare inodes: the link's text may be another name if mounts differ
        return Path(f"/proc/{pid}/{name}").samefile(directory)
    except OSError:
        return False


def _read(entry: int | str, name: str) -> bytes:
    try:
        # a Path costs as much as the reading
        with open(f"/proc/{entry}/{name}", "rb", buffering=0) as stream:  # noqa: PTH123
            return stream.read()
    except OSError:
        return b""


def _stat(pid: int) -> list[str]:
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _without_escapes(word: str) -> str:
    """A word of /proc/PID/mounts, whose blanks and backslashes the kernel writes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


@cache
def boot_id() -> str:
    """The id of the kernel's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
