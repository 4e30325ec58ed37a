"""Submitters' budgets of the matchmaker's CPU time, and suspicions of submitters whose ads ended a worker."""

from __future__ import annotations

import time
from collections.abc import Iterable

from fetchwork.matchmaker.bounds import ITEM_CPU_S, PAUSE_S, PERIOD_S, SUBMITTER_CPU_S, SUSPICION_S

#: autoclusters that are remembered as proven
MAX_PROVEN = 100_000


class Budget:
    """The CPU time that each submitter has used, and the submitters whose ads ended a worker."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._period_ends = 0.0
        #: when an item of a submitter last ended a worker
        self._ended: dict[str, float] = {}
        #: autoclusters that were evaluated to the end once
        self._proven: set[int] = set()

    def left(self, submitters: Iterable[str]) -> dict[str, float]:
        """Return the seconds of CPU that each of the submitters has left in this period."""
        now = time.monotonic()
        if now >= self._period_ends:
            self._spent.clear()
            self._period_ends = now + PERIOD_S
        return {name: max(0.0, SUBMITTER_CPU_S - self._spent.get(name, 0.0)) for name in submitters}

    def spend(self, submitter: str, seconds: float) -> None:
        """Note that a submitter's items took so many seconds of CPU."""
        self._spent[submitter] = self._spent.get(submitter, 0.0) + seconds

    def suspect(self, submitter: str, autocluster: int | None = None) -> None:
        """Note that an item of a submitter ended a worker: the submitter's new items are then suspect."""
        self.spend(submitter, ITEM_CPU_S)
        self._ended[submitter] = time.monotonic()
        if autocluster is not None:
            self._proven.discard(autocluster)

    def suspicious(self) -> frozenset[str]:
        """Return submitters whose unproven autoclusters are evaluated only if nothing else fits."""
        if self._ended:
            now = time.monotonic()
            self._ended = {name: at for name, at in self._ended.items() if now < at + SUSPICION_S}
        return frozenset(self._ended)

    def paused(self) -> frozenset[str]:
        """Return submitters whose unproven autoclusters are not evaluated now, even if nothing else fits."""
        now = time.monotonic()
        return frozenset(name for name, at in self._ended.items() if now < at + PAUSE_S)

    def prove(self, autoclusters: Iterable[int]) -> None:
        """Note that these autoclusters were evaluated to the end."""
        if len(self._proven) > MAX_PROVEN:
            self._proven.clear()
        self._proven.update(autoclusters)

    def is_proven(self, autocluster: int) -> bool:
        """Whether the autocluster was evaluated to the end before."""
        return autocluster in self._proven

    def again_s(self) -> float:
        """Seconds until a pause or the period ends, and with it some submitter has time again."""
        now = time.monotonic()
        pauses = [at + PAUSE_S for at in self._ended.values() if now < at + PAUSE_S]
        return max(0.0, min([self._period_ends, *pauses]) - now)
