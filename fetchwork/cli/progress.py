"""Progress on a terminal: of a search through a long queue or its history, and of file transfers."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from fetchwork.cli import output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

Item = TypeVar("Item")

#: seconds before progress is shown: most answers come earlier
AFTER_S = 1.0
_CLEARED = "\r\x1b[K"


def looking(session: AnySession, items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of a stream of the session; the number of searched jobs stands below them."""
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


@contextlib.contextmanager
def moving(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback for the bytes moved and their total; None if stderr is no terminal.

    Nothing is shown before the first byte, and the line is erased at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def tell(moved: int, total: int) -> None:
            bar.update(task, completed=moved, total=total, visible=total > 0)

        yield tell
