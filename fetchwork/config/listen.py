"""Addresses to listen at, as the host file and the options of commands name them."""

from __future__ import annotations

import re

_LISTEN = re.compile(r"(?P<address>[A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


def listen_address(text: str) -> tuple[str, int]:
    """The address and port of 'ADDRESS:PORT', '[IPV6]:PORT' or ':PORT' (all addresses); raises ValueError."""
    found = _LISTEN.fullmatch(text)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        raise ValueError(
            f"'{text}' is not an address; allowed: ADDRESS:PORT, such as 127.0.0.1:9118, or :PORT"
        )
    return found["address"].strip("[]") or "0.0.0.0", int(found["port"])  # noqa: S104 - asked for
