"""Free TCP ports on loopback."""

import random
import socket
from collections.abc import Sequence
from pathlib import Path

_LOWEST = 15000
_ENOUGH = 1000
_TRIES = 200


def free_port() -> int:
    """A port without a listener that the kernel is unlikely to give to an outgoing connection.

    A client could take a port that the kernel gives out while our server restarts.
    """
    ports = candidates(*local_port_range())
    for _ in range(_TRIES):
        port = random.choice(ports)  # noqa: S311 - spreads, guards nothing
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"no free port among {_TRIES} tried from {ports[0]} to {ports[-1]}")


def local_port_range() -> tuple[int, int]:
    """The first and the last port that the kernel gives to outgoing connections."""
    first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(first), int(last)


def candidates(first: int, last: int) -> Sequence[int]:
    """The ports to choose from if outgoing connections use the ports from ``first`` to ``last``.

    They are outside that range if there are enough. HTCondor's kernel tuning makes the range 1024 to 65535
    on each host whose master runs as root; then they are the ports that connect() tries last: it first tries
    every second port of the range.
    """
    outside = max(range(_LOWEST, first), range(max(last + 1, _LOWEST), 65536), key=len)
    if len(outside) >= _ENOUGH:
        return outside
    return range(_LOWEST + (_LOWEST - first + 1) % 2, 65536, 2)
