"""Frames on an access point's socket: the length in four bytes, then one JSON object.

A client sends one request, ``{"op": NAME, ...}``, and reads frames: any number of ``{"page": [...]}``, then
one ``{"done": RESULT}`` or ``{"error": CLASS, "message": TEXT}``. Then it may send another. With a page may
come ``looked_at``, how many rows were looked at until then; a page that has nothing else says only that. With
an empty one may come ``moved`` and ``total``: how many bytes of how many were moved for the request so far.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from fetchwork.errors import ProtocolError

#: an object of JSON as it was decoded: each reader checks the fields that it takes
Json: TypeAlias = dict[str, Any]

HEAD = 4
#: bytes of a request; an answer's pages are smaller, and its client has asked for them
MAX_REQUEST = 16 * 1024 * 1024
MAX_ANSWER = 256 * 1024 * 1024

#: the operations that change something: these are not repeated where an answer did not come
CHANGES = frozenset(
    {"change", "change_jobs", "act", "edit", "reschedule", "put_credential", "delete_credential"}
)


def encode(frame: Json) -> bytes:
    """A frame's bytes."""
    body = json.dumps(frame, separators=(",", ":")).encode()
    return len(body).to_bytes(HEAD, "big") + body


def length(head: bytes, limit: int) -> int:
    """The length that a frame's head says; raises ProtocolError for one that is too long."""
    size = int.from_bytes(head, "big")
    if size > limit:
        raise ProtocolError(f"a frame of {size} bytes; allowed: {limit}")
    return size


def decode(body: bytes) -> Json:
    """The object in a frame; raises ProtocolError."""
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError("a frame is not JSON") from None
    if not isinstance(frame, dict):
        raise ProtocolError("a frame is not a JSON object")
    return frame
