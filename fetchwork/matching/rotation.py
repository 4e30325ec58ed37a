"""Who comes first, slot after slot, while several slots are given jobs at one moment.

Each slot gets its job by the order of ``choose``. In that, the submitter that has least of its share is
first; so what the slots before were given has to count already for the next, or all of them would go to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fetchwork.matching.choose import Choice, Group
from fetchwork.matching.shares import Shares


class Weighed(NamedTuple):
    """A choice that a slot may be given, and what a second of the slot costs the job."""

    choice: Choice
    weight: float = 1.0


class Rotation:
    """Deals out turns; it counts what it has dealt on top of the ``shares``."""

    def __init__(self, shares: Shares, queues: Sequence[str]) -> None:
        self._shares = shares
        self._queues = {queue: number for number, queue in enumerate(queues)}
        self._dealt: Counter[str] = Counter()

    def sort(
        self, groups: Mapping[Group, Sequence[Choice]], may: Callable[[Choice], bool] | None = None
    ) -> list[Choice]:
        """What the next slot may be given of its queues' groups: all, or what it ``may``."""
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
        """The same for what matching has found for the next slot; ``ranked``: in the order of its Rank."""
        order = list(matched)
        if not ranked:
            # stable: the jobs of one submitter stay in their order
            order.sort(
                key=lambda one: (
                    self._queues.get(one.choice.autocluster.queue, len(self._queues)),
                    self._need(one.choice.autocluster.submitter),
                    one.choice.autocluster.submitter,
                )
            )
        if order:
            self._dealt[order[0].choice.autocluster.submitter] += 1
        return order

    def _need(self, submitter: str) -> float:
        return self._shares.need(submitter, self._dealt[submitter])
