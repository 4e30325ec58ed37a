"""Messages between the agent and its worker: two lengths of four bytes, JSON, and bytes that need none."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

#: of the JSON, and of what follows it
LENGTHS = struct.Struct("!II")


def encode(message: Any, data: bytes = b"") -> bytes:
    """One message as bytes."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"".join((LENGTHS.pack(len(body), len(data)), body, data))


def receive(link: socket.socket) -> tuple[Any, bytes] | None:
    """The next message of a blocking socket; None at its end."""
    head = _exactly(link, LENGTHS.size)
    if head is None:
        return None
    size, more = LENGTHS.unpack(head)
    body = _exactly(link, size)
    data = _exactly(link, more)
    return None if body is None or data is None else (json.loads(body), data)


def _exactly(link: socket.socket, size: int) -> bytes | None:
    parts = []
    while size > 0:
        part = link.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
