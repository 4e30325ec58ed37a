"""Where in the queue this process took its last jobs: how old the next one is, and where a claim begins.

What is kept here is bounded, and may be forgotten at any time.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Mapping

#: (autocluster, priority) pairs of which the last position is kept
MAX_POSITIONS = 20_000
#: how long a claimer trusts its hints: a row that committed late below one is found after that
HINT_LIFE_S = 10.0
#: pairs that are told to who keeps an order by positions; who asks later sorts all anew
MAX_MOVES = 256


class Positions:
    """Where in the queue of each (autocluster, priority) this process took its last job."""

    def __init__(self, limit: int = MAX_POSITIONS) -> None:
        self._last: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._hints: dict[tuple[int, int], int] = {}
        self._forget_at = 0.0
        self._limit = limit
        #: how often something was taken, and of what lately
        self._moves = 0
        self._moved: deque[tuple[int, int]] = deque(maxlen=MAX_MOVES)

    def hint(self, autocluster_id: int, prio: int) -> int:
        """Where a claim may begin to look: 0 from the start."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._hints.clear()
            self._forget_at = now + HINT_LIFE_S
        return self._hints.get((autocluster_id, prio), 0)

    def last(self, autocluster_id: int, prio: int) -> int:
        """The last position taken, 0 if none is known: what its next job's age is judged by."""
        return self._last.get((autocluster_id, prio), 0)

    @property
    def known(self) -> Mapping[tuple[int, int], int]:
        """All that ``last`` knows."""
        return self._last

    def took(self, autocluster_id: int, prio: int, position: int) -> None:
        """A claim took the job at ``position``."""
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
        """How often a position has changed so far."""
        return self._moves

    def moved_since(self, moves: int) -> set[tuple[int, int]] | None:
        """The pairs whose positions changed since there were so many ``moves``; None: they are too many."""
        count = self._moves - moves
        if count > len(self._moved):
            return None
        return set(itertools.islice(reversed(self._moved), count))

    def found_nothing(self, autocluster_id: int, prio: int) -> None:
        """A claim that began at the hint found nothing: the next one looks from the start."""
        self._hints.pop((autocluster_id, prio), None)
