"""Time of a simulation, which may run faster than the clock on the wall."""

import asyncio
import time


class Clock:
    """Seconds since the start; ``scale`` of them pass in one real second.

    What the agent and the database do takes the time that it takes: only what the simulated HTCondor and its
    jobs wait for is shortened. ``ahead_s`` is how wrong the host's clock on the wall is.
    """

    def __init__(self, scale: float = 1.0, ahead_s: float = 0.0) -> None:
        self.scale = scale
        self._ahead_s = ahead_s
        self._start = time.monotonic()

    def now(self) -> float:
        """Simulated seconds since the start."""
        return (time.monotonic() - self._start) * self.scale

    def wall(self) -> int:
        """What the host takes for the time: seconds since 1970."""
        return int(time.time() + self._ahead_s)

    async def sleep(self, seconds: float) -> None:
        """Wait so many simulated seconds."""
        await asyncio.sleep(max(0.0, seconds) / self.scale)
