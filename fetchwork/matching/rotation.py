"""Who comes first, slot after slot, while several slots are given jobs at one moment.

Each slot gets its job by the order of ``choose``. In that, the submitter that has least of its share is
first; so what the slots before were given has to count already for the next, or all of them would go to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fetchwork.matching.choose import Choice
from fetchwork.matching.shares import Shares


@dataclass(frozen=True, slots=True)
class Weighed:
    """A choice that a slot may be given, and what a second of the slot costs the job."""

    choice: Choice
    weight: float = 1.0


class Rotation:
    """Deals out turns; it counts what it has dealt on top of the ``shares``."""

    def __init__(self, shares: Shares, queues: Sequence[str]) -> None:
        self._shares = shares
        self._queues = {queue: number for number, queue in enumerate(queues)}
        self._dealt: Counter[str] = Counter()

    def sort(self, ordered: Iterable[Choice], may: Callable[[Choice], bool]) -> list[Choice]:
        """What the next slot may be given, of choices in the order of ``choose.order``."""
        groups: dict[tuple[int, str], list[Choice]] = {}
        queue = submitter = None
        group: list[Choice] = []
        for choice in ordered:
            if may(choice):
                autocluster = choice.autocluster
                # those of one group follow each other
                if autocluster.submitter != submitter or autocluster.queue != queue:
                    queue, submitter = autocluster.queue, autocluster.submitter
                    name = self._queues.get(queue, len(self._queues)), submitter
                    group = groups.setdefault(name, [])
                group.append(choice)
        turns = sorted(groups, key=lambda group: (group[0], self._need(group[1]), group[1]))
        if turns:
            self._dealt[turns[0][1]] += 1
        return [choice for group in turns for choice in groups[group]]

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
