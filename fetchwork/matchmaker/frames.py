"""Messages between the agent and its worker: two lengths of four bytes, JSON, and further bytes."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

#: the length of the JSON, and of the bytes after it
LENGTHS = struct.Struct("!II")


def encode(message: object, data: bytes = b"") -> bytes:
    """Return a message as bytes."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"".join((LENGTHS.pack(len(body), len(data)), body, data))


class Reader:
    """Reads messages from a blocking socket, mostly with one system call for each."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._buffer = b""

    def receive(self) -> tuple[Any, bytes] | None:
        """Return the next message; None at the end."""
        if not self._fill(LENGTHS.size):
            return None
        size, more = LENGTHS.unpack_from(self._buffer)
        begin, end = LENGTHS.size, LENGTHS.size + size + more
        if not self._fill(end):
            return None
        body, data = self._buffer[begin : begin + size], self._buffer[begin + size : end]
        self._buffer = self._buffer[end:]
        return json.loads(body), data

    def _fill(self, size: int) -> bool:
        if len(self._buffer) >= size:
            return True
        parts = [self._buffer]
        there = len(self._buffer)
        while there < size:
            part = self._link.recv(1 << 20)
            if not part:
                return False
            parts.append(part)
            there += len(part)
        self._buffer = b"".join(parts)
        return True
