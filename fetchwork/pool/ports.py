"""Free TCP ports on loopback."""

import random
import socket
from pathlib import Path

_LOWEST = 15000


def free_port() -> int:
    """A port that nobody listens on, below the range that the kernel gives to outgoing connections.

    A port of that range could be taken by a client while our server restarts.
    """
    above = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(200):
        port = random.randrange(_LOWEST, max(above, _LOWEST + 1000))  # noqa: S311 - spreads, guards nothing
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"no free port among 200 tried from {_LOWEST} to {above}")
