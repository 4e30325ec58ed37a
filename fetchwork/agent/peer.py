"""Who is at the other end of the agent's socket, and which process started the hook: asked of the kernel."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
_STARTED_AT = 21  # field 22 of /proc/PID/stat
_PARENT = 3


@dataclass(frozen=True, slots=True)
class Peer:
    """Process, account and group that connected."""

    pid: int
    uid: int
    gid: int


def credentials(connection: socket.socket) -> Peer:
    """Who connected a Unix socket (``SO_PEERCRED``): as it was at that moment, whoever holds it now."""
    return Peer(
        *_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    )


def identity(pid: int) -> str | None:
    """A process in a way that no later one shares: "pid:start time"; None if it can't be seen."""
    fields = _stat(pid)
    return f"{pid}:{fields[_STARTED_AT]}" if fields else None


def parent_identity(pid: int) -> str | None:
    """The identity of a process's parent: of a starter hook, the starter."""
    fields = _stat(pid)
    parent = int(fields[_PARENT]) if fields else 0
    # 1 has adopted a hook whose starter is gone
    return identity(parent) if parent > 1 else None


def pid_of(identity: str) -> int:
    """The process number in an identity, 0 if it is none."""
    pid = identity.partition(":")[0]
    return int(pid) if pid.isascii() and pid.isdigit() else 0


def is_alive(process: str) -> bool:
    """Tell whether the process with this identity still runs (a zombie does not)."""
    fields = _stat(pid_of(process))
    return (
        bool(fields) and fields[2] not in ("Z", "X") and process == f"{pid_of(process)}:{fields[_STARTED_AT]}"
    )


def started_at(pid: int) -> float | None:
    """When a process started, in seconds since the epoch, within a second or so."""
    fields = _stat(pid)
    if not fields:
        return None
    boot = _boot_time()
    return boot + int(fields[_STARTED_AT]) / os.sysconf("SC_CLK_TCK") if boot is not None else None


def owner_of(pid: int) -> int | None:
    """The account that a process runs as (its real uid), None if it can't be seen."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("Uid:")), None)


def uid_of(account: str) -> int | None:
    """The number of an account, None if this host has none of the name."""
    try:
        return pwd.getpwnam(account).pw_uid
    except (KeyError, OSError):
        return None


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    # the second field is the command in brackets, which may hold anything
    head, _, tail = text.rpartition(")")
    return [head.partition(" ")[0], "", *tail.split()] if tail else []


def _boot_time() -> float | None:
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
    except OSError:
        return None
    return None
