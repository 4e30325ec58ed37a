"""How far a look through a long queue or its history has come, on a terminal while nothing is found."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from fetchwork.cli import output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

Item = TypeVar("Item")

#: seconds in which most answers come without a word of that
AFTER_S = 1.0
_CLEARED = "\r\x1b[K"


def looking(session: AnySession, items: Iterator[Item]) -> Iterator[Item]:
    """Pass on the items of a stream of the session; what was looked at stands below them."""
    if not output.on_terminal():
        yield from items
        return
    began = time.monotonic()
    said = False

    def looked(rows: int) -> None:
        nonlocal said
        if time.monotonic() - began >= AFTER_S:
            sys.stderr.write(f"{_CLEARED}looked at {rows:,} jobs")
            sys.stderr.flush()
            said = True

    def clear() -> None:
        nonlocal said
        if said:
            sys.stderr.write(_CLEARED)
            sys.stderr.flush()
            said = False

    session.looked = looked
    try:
        for item in items:
            clear()
            yield item
    finally:
        clear()
        session.looked = None
