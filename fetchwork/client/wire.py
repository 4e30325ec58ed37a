"""Frames on an access point's socket: the length in four bytes, then one JSON object.

A client sends one request, ``{"op": NAME, ...}``, and reads frames: any number of ``{"page": [...]}``, then
one ``{"done": RESULT}`` or ``{"error": CLASS, "message": TEXT}``. Then it may send another request. A page
may carry ``looked_at``, the number of rows examined so far; an empty page may report only that. An empty page
may also carry ``moved`` and ``total``: the bytes moved for the request so far, and their total.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from fetchwork.errors import ProtocolError

#: a decoded JSON object; each reader checks the fields that it uses
Json: TypeAlias = dict[str, Any]

HEAD = 4
#: largest request, in bytes
MAX_REQUEST = 16 * 1024 * 1024
#: largest frame of an answer; pages are smaller, and the client asked for them
MAX_ANSWER = 256 * 1024 * 1024

#: the operations that change something: not repeated if no answer came
CHANGES = frozenset(
    {"change", "change_jobs", "act", "edit", "reschedule", "put_credential", "delete_credential"}
)


def encode(frame: Json) -> bytes:
    """Return the bytes of a frame."""
    body = json.dumps(frame, separators=(",", ":")).encode()
    return len(body).to_bytes(HEAD, "big") + body


def length(head: bytes, limit: int) -> int:
    """Return the body length in a frame's head; raises ProtocolError if it exceeds ``limit``."""
    size = int.from_bytes(head, "big")
    if size > limit:
        raise ProtocolError(f"a frame of {size} bytes; allowed: {limit}")
    return size


def decode(body: bytes) -> Json:
    """Return the object in a frame; raises ProtocolError."""
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError("a frame is not JSON") from None
    if not isinstance(frame, dict):
        raise ProtocolError("a frame is not a JSON object")
    return frame
