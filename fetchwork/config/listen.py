"""Addresses to listen at, as the host file and the options of commands name them."""

from __future__ import annotations

import re
import socket

_LISTEN = re.compile(r"(?P<address>[A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


def listen_address(text: str) -> tuple[str, int]:
    """The address and port of 'ADDRESS:PORT', '[IPV6]:PORT' or ':PORT'; raises ValueError.

    The last means all addresses: '::', where a socket of IPv6 takes IPv4's connections too, else '0.0.0.0'.
    """
    found = _LISTEN.fullmatch(text)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        raise ValueError(
            f"'{text}' is not an address; allowed: ADDRESS:PORT, such as 127.0.0.1:9118, or :PORT"
        )
    every = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - asked for
    return found["address"].strip("[]") or every, int(found["port"])
