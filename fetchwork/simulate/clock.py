"""Time of a simulation, which may run faster than the clock on the wall."""

import asyncio
import time


class Clock:
    """Seconds since the start; ``scale`` of them pass in one real second.

    What the agent and the database do takes the time that it takes: only what the simulated HTCondor and its
    jobs wait for is shortened.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self._start = time.monotonic()

    def now(self) -> float:
        """Simulated seconds since the start."""
        return (time.monotonic() - self._start) * self.scale

    async def sleep(self, seconds: float) -> None:
        """Wait so many simulated seconds."""
        await asyncio.sleep(max(0.0, seconds) / self.scale)
