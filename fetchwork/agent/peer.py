"""Who is at the other end of the agent's socket: asked of the kernel."""

from __future__ import annotations

import pwd
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Peer:
    """Process, account and group that connected."""

    pid: int
    uid: int
    gid: int


def credentials(connection: socket.socket) -> Peer:
    """Who connected a Unix socket (``SO_PEERCRED``): as it was at that moment."""
    return Peer(
        *_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    )


def uid_of(account: str) -> int | None:
    """The number of an account, None if this host has none of the name."""
    try:
        return pwd.getpwnam(account).pw_uid
    except (KeyError, OSError):
        return None
