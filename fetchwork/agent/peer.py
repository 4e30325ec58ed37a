"""The peer of a Unix socket, as the kernel names it, and the accounts that may send any request."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fetchwork.errors import ConfigError

if TYPE_CHECKING:
    from fetchwork.config import HostConfig

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


def trusted_accounts(config: HostConfig) -> frozenset[int]:
    """Return the uids that may ask like the startd: root's, the agent's own, that of HTCondor's account."""
    uids = {0, os.geteuid()}
    for account in {"condor", config.agent.user} - {"", None}:
        uid = uid_of(str(account))
        if uid is not None:
            uids.add(uid)
        elif account == config.agent.user and os.geteuid() == 0:
            raise ConfigError([f"agent.user: there is no account '{account}' on this host"])
    return frozenset(uids)
