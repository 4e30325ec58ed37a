"""The order of submitters, slot after slot, while several slots are given jobs at one moment.

Each slot gets its job by the order of ``choose``, which puts the submitter furthest below its share first. A
slot given to a submitter therefore counts at once for the next slot; otherwise all slots would go to one
submitter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fetchwork.matching.choose import Choice, Group
from fetchwork.matching.shares import Shares, Turn


class Weighed(NamedTuple):
    """A choice that a slot may be given, and the cost to the job of a second of the slot."""

    choice: Choice
    weight: float = 1.0


class Rotation:
    """Deals slots to submitters in turn, and counts dealt slots in addition to the ``shares``."""

    def __init__(self, shares: Shares, queues: Sequence[str]) -> None:
        self._shares = shares
        self._queues = {queue: number for number, queue in enumerate(queues)}
        self._dealt: Counter[str] = Counter()
        #: weights of the slots dealt to each accounting group
        self._of_group: defaultdict[str, float] = defaultdict(float)

    def sort(
        self, groups: Mapping[Group, Sequence[Choice]], may: Callable[[Choice], bool] | None = None
    ) -> list[Choice]:
        """Return the choices for the next slot from its queues' groups: all, or those that it ``may`` get."""
        turns = sorted(
            (queue_number, self._turn(group[1]), group[1], group)
            for group in groups
            if (queue_number := self._queues.get(group[0])) is not None
        )
        choices: list[Choice] = []
        first: str | None = None
        for _, _, submitter, group in turns:
            before = len(choices)
            choices += groups[group] if may is None else filter(may, groups[group])
            if first is None and len(choices) > before:
                first = submitter
        if first is not None:
            self._deal(first, 1.0)
        return choices

    def deal(self, matched: Sequence[Weighed], *, ranked: bool) -> list[Weighed]:
        """Return the next slot's matched choices in order; ``ranked``: its Rank has ordered them already."""
        order = list(matched)
        if not ranked:
            # stable: the jobs of one submitter stay in their order
            order.sort(
                key=lambda weighed: (
                    self._queues.get(weighed.choice.autocluster.queue, len(self._queues)),
                    self._turn(weighed.choice.autocluster.submitter),
                    weighed.choice.autocluster.submitter,
                )
            )
        if order:
            self._deal(order[0].choice.autocluster.submitter, order[0].weight)
        return order

    def _deal(self, submitter: str, weight: float) -> None:
        self._dealt[submitter] += 1
        self._of_group[self._shares.group_of(submitter)] += weight

    def _turn(self, submitter: str) -> Turn:
        group = self._shares.group_of(submitter)
        return self._shares.turn(submitter, self._dealt[submitter], self._of_group[group])
