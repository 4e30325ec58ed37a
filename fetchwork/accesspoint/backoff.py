"""Pauses before failed work is tried again, and before a job that ends at once runs again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: seconds after the start within which an end is quick
QUICK_S = 10.0
#: the first delay, and the longest
FIRST_S = 1.0
LONGEST_S = 60.0
#: most jobs remembered
MOST = 10_000


class Backoff(Generic[Key]):
    """The failed work of one owner: for each key the time of the next try, and the pause before it."""

    def __init__(self) -> None:
        self._at: dict[Key, tuple[float, float]] = {}

    def is_due(self, key: Key) -> bool:
        """Whether the key has not failed, or its pause is over."""
        return key not in self._at or self._at[key][0] <= time.monotonic()

    def postpone(self, key: Key, first_s: float, longest_s: float) -> None:
        """Note a failure: retry after ``first_s`` the first time, then after up to ``longest_s``."""
        pause = min(longest_s, 2 * self._at.get(key, (0.0, first_s / 2))[1])
        self._at[key] = (time.monotonic() + pause, pause)

    def forget(self, key: Key) -> None:
        """Forget a key that has succeeded."""
        self._at.pop(key, None)

    def keep(self, keys: Container[Key]) -> None:
        """Forget all other keys."""
        self._at = {key: when for key, when in self._at.items() if key in keys}


class Restarts:
    """The number of consecutive quick ends of each job of one access point, by job id.

    A scheduler-universe job may ask to be run again whenever it ends (``on_exit_remove``, which
    condor_submit_dag writes so that a condor_dagman continues after a crash). A job that ends at once each
    time would keep the access point busy, so from its second quick end on it waits, longer each time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, float] = {}
        #: job -> number of quick ends, and the time of the last
        self._quick: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def began(self, job: str) -> None:
        """Note the start of a job."""
        self._began[job] = self._clock()

    def ended(self, job: str) -> None:
        """Note the end of a job; ignored if it was not started."""
        began = self._began.pop(job, None)
        if began is None:
            return
        number, _ = self._quick.pop(job, (0, 0.0))
        now = self._clock()
        if now - began < QUICK_S:
            self._quick[job] = (number + 1, now)
            if len(self._quick) > MOST:
                self._quick.popitem(last=False)

    def delay_s(self, job: str) -> float:
        """The seconds that a job still has to wait."""
        number, at = self._quick.get(job, (0, 0.0))
        if number < 2:
            return 0.0
        # bound the exponent, so that years of quick ends don't overflow
        delay = min(LONGEST_S, FIRST_S * 2.0 ** min(number - 2, 30))
        return max(0.0, at + delay - self._clock())
