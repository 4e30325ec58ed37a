"""Who is at the other end of the agent's socket, asked of the kernel, and who of them may ask all."""

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


def trusted_accounts(config: HostConfig) -> frozenset[int]:
    """Those that may ask what the startd asks: root, the agent itself, the account that HTCondor runs as."""
    uids = {0, os.geteuid()}
    for account in {"condor", config.agent.user} - {"", None}:
        uid = uid_of(str(account))
        if uid is not None:
            uids.add(uid)
        elif account == config.agent.user and os.geteuid() == 0:
            raise ConfigError([f"agent.user: there is no account '{account}' on this host"])
    return frozenset(uids)
