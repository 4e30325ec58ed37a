"""Events of which several can be waited for at once, without a task for each."""

from __future__ import annotations

import asyncio


class Signal(asyncio.Event):
    """An event for ``first``."""

    def __init__(self) -> None:
        super().__init__()
        #: who waits for it, and for others beside it
        self.awaited: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Wake everybody who waits."""
        super().set()
        for waiting in self.awaited:
            _wake(waiting)


async def first(timeout_s: float, *signals: Signal) -> None:
    """Wait until one of the signals is set, or the time is over.

    A host has a fetch of each of its slots wait so, for three signals; a task for each of them was most of
    what an idle agent did.
    """
    if any(signal.is_set() for signal in signals):
        return
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()
    for signal in signals:
        signal.awaited.add(waiting)
    over = loop.call_later(max(0.0, timeout_s), _wake, waiting)
    try:
        await waiting
    finally:
        over.cancel()
        for signal in signals:
            signal.awaited.discard(waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
