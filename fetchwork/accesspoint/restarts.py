"""When a job of the scheduler universe that ended, and is to run again, is started the next time.

A job may ask to be run again whenever it ends (``on_exit_remove``, which condor_submit_dag writes so that a
condor_dagman goes on after a crash). One that ends at once each time would keep the access point busy with
nothing else, so from its second such end on it waits, longer each time.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

#: an end so soon after the start is one at once
QUICK_S = 10.0
#: the first delay, and the longest
FIRST_S = 1.0
LONGEST_S = 60.0
#: jobs that are remembered
MOST = 10_000


class Restarts:
    """Of the jobs of one access point, by their ids: how often each has ended at once without a break."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, float] = {}
        #: job -> number of ends at once, and when the last was
        self._quick: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def began(self, job: str) -> None:
        """It has been started."""
        self._began[job] = self._clock()

    def ended(self, job: str) -> None:
        """It has ended; if it was not started, nothing."""
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
        """How long it has still to wait, in seconds."""
        number, at = self._quick.get(job, (0, 0.0))
        if number < 2:
            return 0.0
        # a number of years is no exponent
        delay = min(LONGEST_S, FIRST_S * 2.0 ** min(number - 2, 30))
        return max(0.0, at + delay - self._clock())
