"""Processes that others started: known by pid and start time, never by name.

A pid alone is given out again; with the start time, in the kernel's ticks since the boot, it is not. Where a
process is written down for longer than a boot may last, the boot's id goes with it.
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
from pathlib import Path

# fields of /proc/PID/stat after the command name, which is in parentheses and may hold anything
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
        """As the database keeps it, for as long as a run: "pid:start time"."""
        return f"{self.pid}:{self.start_ticks}"

    @classmethod
    def parse(cls, text: str) -> Process | None:
        """What ``str()`` of a process wrote; None when that was before the last boot."""
        pid, start_ticks, boot = text.split()
        return cls(int(pid), int(start_ticks)) if boot == boot_id() else None

    def __str__(self) -> str:
        return f"{self.pid} {self.start_ticks} {boot_id()}"

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that only waits to be reaped does not."""
        fields = _stat(self.pid)
        return bool(fields) and int(fields[_START_TICKS]) == self.start_ticks and fields[_STATE] not in "ZX"

    @property
    def stopped(self) -> bool:
        """Whether it is stopped, as by SIGSTOP."""
        fields = _stat(self.pid)
        return bool(fields) and fields[_STATE] in "Tt"

    @property
    def parent(self) -> Process | None:
        """The process that started it: of a starter's hook, the starter. None where init has adopted it."""
        fields = _stat(self.pid)
        parent = int(fields[_PARENT]) if fields else 0
        return Process.find(parent) if parent > 1 else None

    @property
    def owner(self) -> int | None:
        """The account that it runs as (its real uid); None if it has gone."""
        lines = _read(self.pid, "status").decode(errors="replace").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("Uid:")), None)

    @property
    def started_at(self) -> float | None:
        """When it started, in seconds since the epoch, within a second or so."""
        for line in _read("", "stat").decode().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1]) + self.start_ticks / os.sysconf("SC_CLK_TCK")
        return None

    @property
    def command(self) -> list[str]:
        """Its command line; empty when it has gone."""
        return _read(self.pid, "cmdline").decode(errors="replace").split("\0")[:-1]

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal, or nothing if it has gone; with ``group`` to the group that it leads, if it does.

        Raises OSError, above all PermissionError.
        """
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                # the descriptor holds on to whatever has the pid now: look who that is, then send
                if self.alive:
                    if group and os.getpgid(self.pid) == self.pid:
                        os.killpg(self.pid, number)
                    else:
                        signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has gone; whether it has."""
        return wait_all([self], timeout_s)

    def works_in(self, directory: Path) -> bool:
        """Whether that is its working directory, by whatever name; False if we may not know."""
        return _is(self.pid, "cwd", directory)

    @property
    def name(self) -> str:
        """What the kernel calls it: the first 15 characters of its program's name."""
        return _read(self.pid, "comm").decode(errors="replace").rstrip("\n")

    def mounts(self) -> dict[str, str]:
        """The sources of its mounts by directory, as seen from its own root; none if it has gone."""
        lines = _read(self.pid, "mounts").decode("utf-8", "surrogateescape").splitlines()
        pairs = [[_without_escapes(word) for word in line.split(" ")[:2]] for line in lines]
        return {directory: source for source, directory in pairs}

    def environment(self) -> list[bytes]:
        """The environment that it was started with; empty when it has gone or we may not know."""
        return _read(self.pid, "environ").split(b"\0")

    def children(self) -> list[Process]:
        """Its children now."""
        lists = [_read(f"{self.pid}/task/{thread}", "children") for thread in _threads(self.pid)]
        found = (Process.find(int(pid)) for one in lists for pid in one.split())
        return [child for child in found if child is not None] if self.alive else []


def processes() -> Iterator[Process]:
    """Every process that can be seen."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := Process.find(int(entry.name))):
            yield process


def wait_all(waited_for: Iterable[Process], timeout_s: float) -> bool:
    """Wait until all have gone; whether they have."""
    left = list(waited_for)
    deadline = time.monotonic() + timeout_s
    while left := [process for process in left if process.alive]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def account(*names: str) -> pwd.struct_passwd:
    """The first of these accounts that exists."""
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
        # not by the link's text, which is another name where mounts differ
        return Path(f"/proc/{pid}/{name}").samefile(directory)
    except OSError:
        return False


def _read(entry: int | str, name: str) -> bytes:
    try:
        return Path(f"/proc/{entry}/{name}").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str]:
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _without_escapes(word: str) -> str:
    """A word of /proc/PID/mounts, in which the kernel writes blanks and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def boot_id() -> str:
    """The id of the kernel's boot, another one after each."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
