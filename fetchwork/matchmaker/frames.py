"""Messages between the agent and its worker: a length of four bytes, then JSON."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LENGTH = struct.Struct("!I")


def encode(message: Any) -> bytes:
    """One message as bytes."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


def receive(link: socket.socket) -> Any:
    """The next message of a blocking socket; None at its end."""
    head = _exactly(link, LENGTH.size)
    if head is None:
        return None
    body = _exactly(link, LENGTH.unpack(head)[0])
    return None if body is None else json.loads(body)


def _exactly(link: socket.socket, size: int) -> bytes | None:
    parts = []
    while size > 0:
        part = link.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
