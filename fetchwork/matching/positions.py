"""The queue positions of the last jobs that this process took.

They tell the next job's age and give a claim its starting point.

The memory is bounded, and its content may be dropped at any time.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Mapping

#: most (autocluster, priority) pairs whose last position is kept
MAX_POSITIONS = 20_000
#: seconds for which a hint is trusted; after that a row that committed late below the hint is found
HINT_LIFE_S = 10.0
#: most changed pairs reported to the keeper of an order; if more have changed, it sorts everything again
MAX_MOVES = 256


class Positions:
    """The position of the last job that this process took, for each (autocluster, priority)."""

    def __init__(self, limit: int = MAX_POSITIONS) -> None:
        self._last: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._hints: dict[tuple[int, int], int] = {}
        self._forget_at = 0.0
        self._limit = limit
        #: number of position changes, and the pairs of the latest ones
        self._moves = 0
        self._moved: deque[tuple[int, int]] = deque(maxlen=MAX_MOVES)

    def hint(self, autocluster_id: int, prio: int) -> int:
        """Return the position at which a claim may begin; 0 is the start."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._hints.clear()
            self._forget_at = now + HINT_LIFE_S
        return self._hints.get((autocluster_id, prio), 0)

    def last(self, autocluster_id: int, prio: int) -> int:
        """Return the last position taken, 0 if unknown; it tells the age of the next job."""
        return self._last.get((autocluster_id, prio), 0)

    @property
    def known(self) -> Mapping[tuple[int, int], int]:
        """All positions that ``last`` returns."""
        return self._last

    def took(self, autocluster_id: int, prio: int, position: int) -> None:
        """Note that a claim took the job at ``position``."""
        key = (autocluster_id, prio)
        self._hints[key] = max(position, self._hints.get(key, 0))
        self._last[key] = position
        self._last.move_to_end(key)
        self._note_move(key)
        while len(self._last) > self._limit:
            forgotten = self._last.popitem(last=False)[0]
            self._hints.pop(forgotten, None)
            self._note_move(forgotten)

    def _note_move(self, key: tuple[int, int]) -> None:
        self._moves += 1
        self._moved.append(key)

    @property
    def moves(self) -> int:
        """The number of position changes so far."""
        return self._moves

    def moved_since(self, moves: int) -> set[tuple[int, int]] | None:
        """Return the pairs that changed since there were so many ``moves``; None if they are too many."""
        count = self._moves - moves
        if count > len(self._moved):
            return None
        return set(itertools.islice(reversed(self._moved), count))

    def found_nothing(self, autocluster_id: int, prio: int) -> None:
        """Drop the hint: a claim that began there found nothing, so the next one begins at the start."""
        self._hints.pop((autocluster_id, prio), None)
