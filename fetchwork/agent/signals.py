"""Events for waiting on several at once without a task for each."""

from __future__ import annotations

import asyncio


class Signal(asyncio.Event):
    """An event that ``first`` can wait for."""

    def __init__(self) -> None:
        super().__init__()
        #: futures of the ``first`` calls that wait for it, perhaps beside other signals
        self.awaited: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Wake all waiting calls."""
        super().set()
        for waiting in self.awaited:
            _wake(waiting)


async def first(timeout_s: float, *signals: Signal) -> None:
    """Wait until one of the signals is set, or the time is over.

    The fetch of each slot waits like this for three signals. A task for each signal was most of an
    idle agent's work.
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
