"""The order of submitters, slot after slot, while several slots are given jobs at one moment.

Each slot gets its job by the order of ``choose``, which puts the submitter furthest below its share first. A
slot given to a submitter therefore counts at once for the next slot; otherwise all slots would go to one
submitter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fetchwork.matching.choose import Choice, Group
from fetchwork.matching.shares import Shares


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

    def sort(
        self, groups: Mapping[Group, Sequence[Choice]], may: Callable[[Choice], bool] | None = None
    ) -> list[Choice]:
        """Return the choices for the next slot from its queues' groups: all, or those that it ``may`` get."""
        turns = sorted(
            (queue_number, self._need(group[1]), group[1], group)
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
            self._dealt[first] += 1
        return choices

    def deal(self, matched: Sequence[Weighed], *, ranked: bool) -> list[Weighed]:
        """Return the next slot's matched choices in order; ``ranked``: its Rank has ordered them already."""
        order = list(matched)
        if not ranked:
            # stable: the jobs of one submitter stay in their order
            order.sort(
                key=lambda weighed: (
                    self._queues.get(weighed.choice.autocluster.queue, len(self._queues)),
                    self._need(weighed.choice.autocluster.submitter),
                    weighed.choice.autocluster.submitter,
                )
            )
        if order:
            self._dealt[order[0].choice.autocluster.submitter] += 1
        return order

    def _need(self, submitter: str) -> float:
        return self._shares.need(submitter, self._dealt[submitter])
