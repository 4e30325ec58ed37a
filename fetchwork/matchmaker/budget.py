"""Whose turn it is with the matchmaker: CPU time by submitter, and strikes."""

from __future__ import annotations

import time
from collections.abc import Iterable

from fetchwork.matchmaker.bounds import DOUBTFUL_S, ITEM_CPU_S, PERIOD_S, STRIKE_S, SUBMITTER_CPU_S

#: autoclusters that are remembered as proven
MAX_PROVEN = 100_000


class Budget:
    """What each submitter has used of the matchmaker's time, and whose ads ended a worker."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._period_ends = 0.0
        self._strikes: dict[str, float] = {}
        #: autoclusters that were evaluated to the end once
        self._proven: set[int] = set()

    def left(self, submitters: Iterable[str]) -> dict[str, float]:
        """Seconds of CPU that each of the submitters has in this period."""
        now = time.monotonic()
        if now >= self._period_ends:
            self._spent.clear()
            self._period_ends = now + PERIOD_S
            self._strikes = {name: until for name, until in self._strikes.items() if until > now}
        return {name: max(0.0, SUBMITTER_CPU_S - self._spent.get(name, 0.0)) for name in submitters}

    def spend(self, submitter: str, seconds: float) -> None:
        """A submitter's items took so many seconds of CPU."""
        self._spent[submitter] = self._spent.get(submitter, 0.0) + seconds

    def strike(self, submitter: str, autocluster: int | None = None) -> None:
        """An item of a submitter ended a worker."""
        self.spend(submitter, ITEM_CPU_S)
        self._strikes[submitter] = time.monotonic() + STRIKE_S
        if autocluster is not None:
            self._proven.discard(autocluster)

    def prove(self, autoclusters: Iterable[int]) -> None:
        """These autoclusters were evaluated to the end."""
        if len(self._proven) > MAX_PROVEN:
            self._proven.clear()
        self._proven.update(autoclusters)

    def is_proven(self, autocluster: int) -> bool:
        """Whether the autocluster was evaluated to the end before."""
        return autocluster in self._proven

    def has_time_for_doubtful(self, submitter: str) -> bool:
        """Whether what is doubtful of a submitter may be tried in this period."""
        return self._spent.get(submitter, 0.0) < DOUBTFUL_S

    def is_doubtful(self, submitter: str, autocluster: int) -> bool:
        """Whether it may well end a worker: not proven, and of a submitter with a strike."""
        return self._strikes.get(submitter, 0.0) > time.monotonic() and autocluster not in self._proven
