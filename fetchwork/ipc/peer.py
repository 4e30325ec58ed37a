"""The peer of a Unix socket, as the kernel names it, and the uids of accounts."""

from __future__ import annotations

import pwd
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Peer:
    """The process, account and group that connected."""

    pid: int
    uid: int
    gid: int


def credentials(connection: socket.socket) -> Peer:
    """Return the peer that connected a Unix socket, as it was at that moment (``SO_PEERCRED``)."""
    return Peer(
        *_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    )


def uid_of(account: str) -> int | None:
    """Return the uid of an account, None if this host has no such account."""
    try:
        return pwd.getpwnam(account).pw_uid
    except (KeyError, OSError):
        return None
