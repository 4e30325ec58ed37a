"""Bytes that move, shown on a terminal while they do."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def moving(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """What is told how many bytes of how many have moved; None where stderr is no terminal.

    Nothing is shown before the first byte, and nothing stays.
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
