"""Frames between processes of one host: the length in four bytes, then one JSON object, then bytes.

The bytes are the value of "data", which in the JSON is their number; a frame without "data" has none.
"""

from __future__ import annotations

import json
import socket
from typing import Any, TypeAlias

from fetchwork.errors import ProtocolError

#: a decoded JSON object; each reader checks the fields that it uses
Json: TypeAlias = dict[str, Any]

HEAD = 4
#: most bytes of a frame, and of its data, unless a reader allows fewer
MAX_FRAME = 256 * 1024 * 1024


def encode(frame: Json) -> bytes:
    """Return the bytes of a frame; bytes in "data" are sent as they are."""
    data = frame.get("data")
    if not isinstance(data, bytes):
        data = b""
    else:
        frame = {**frame, "data": len(data)}
    body = json.dumps(frame, separators=(",", ":")).encode()
    return b"".join((len(body).to_bytes(HEAD, "big"), body, data))


def length(head: bytes | bytearray, limit: int) -> int:
    """Return the body length in a frame's head; raises ProtocolError if it exceeds ``limit``."""
    size = int.from_bytes(head, "big")
    if size > limit:
        raise ProtocolError(f"a frame of {size} bytes; allowed: {limit}")
    return size


def decode(body: bytes | bytearray) -> Json:
    """Return the object in a frame, without its data; raises ProtocolError."""
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError("a frame is not JSON") from None
    if not isinstance(frame, dict):
        raise ProtocolError("a frame is not a JSON object")
    return frame


class Buffer:
    """Collects received bytes until they make a frame."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._received = bytearray()
        #: a frame whose data has not arrived
        self._frame: Json | None = None

    def feed(self, part: bytes) -> None:
        """Add received bytes."""
        self._received += part

    def take(self) -> Json | None:
        """Return the next frame; None if it is incomplete. Raises ProtocolError."""
        if self._frame is None:
            if len(self._received) < HEAD:
                return None
            body = self._cut(HEAD, length(self._received[:HEAD], self._limit))
            if body is None:
                return None
            self._frame = decode(body)
        size = self._frame.get("data")
        if type(size) is int:
            if not 0 <= size <= self._limit:
                raise ProtocolError(f"a frame with {size} bytes of data; allowed: {self._limit}")
            data = self._cut(0, size)
            if data is None:
                return None
            self._frame["data"] = data
        frame, self._frame = self._frame, None
        return frame

    def _cut(self, begin: int, size: int) -> bytes | None:
        """Remove the bytes up to the end of a part, and return the part; None if it has not arrived."""
        if len(self._received) < begin + size:
            return None
        part = bytes(memoryview(self._received)[begin : begin + size])
        del self._received[: begin + size]
        return part


class Reader:
    """Reads frames from a blocking socket, mostly with one system call for each."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._buffer = Buffer()

    def receive(self) -> Json | None:
        """Return the next frame; None at the end of the connection."""
        while (frame := self._buffer.take()) is None:
            part = self._link.recv(1 << 20)
            if not part:
                return None
            self._buffer.feed(part)
        return frame

    def arrived(self) -> Json | None:
        """Return the next frame that was received already; None if there is no such frame."""
        return self._buffer.take()
