"""Which autoclusters a slot may get, and in which order.

The database says what waits (``candidates``); here the ads of those autoclusters, read once and kept, are put
against the slot's ad, and what remains is ordered as HTCondor's negotiator would:

1. the slot's own ``Rank``, where it defines one;
2. the keyword's queues, in the order of the host file;
3. the submitter that has least of its share (``Shares.need``), so that the slots of two submitters settle
   where they stand in the inverse ratio of their priority factors;
4. JobPrio, among the jobs of one submitter;
5. age: the autocluster whose last job was taken furthest ahead in the queue comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fetchwork.matching.autoclusters import Autocluster, Autoclusters
from fetchwork.matching.fit import SlotView, outranked
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares


class CandidateRow(Protocol):
    """What is read of a row of ``fetchwork.candidates``."""

    @property
    def autocluster_id(self) -> int: ...
    @property
    def job_prio(self) -> int: ...
    @property
    def limited(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """One autocluster and priority that a slot may be given."""

    autocluster: Autocluster
    prio: int
    limited: bool


#: queue, the submitter's need and name, JobPrio (negative), position, autocluster: the lowest is first
_Order = tuple[int, float, str, int, int, int]


def choose(
    candidates: Iterable[CandidateRow],
    slot: SlotView,
    *,
    autoclusters: Autoclusters,
    positions: Positions,
    shares: Shares,
    queues: Sequence[str],
) -> Iterator[Choice]:
    """Those candidates that may run on the slot, the one to offer first at the front.

    Each is put against the slot when it is asked for, because the first one is mostly taken; a slot that
    ranks jobs has to be put against all. An autocluster whose ad can't be read fits every slot: its
    job is claimed and then held, with the reason.
    """
    queue_order = {queue: number for number, queue in enumerate(queues)}
    needs: dict[str, float] = {}
    ordered: list[tuple[_Order, Choice]] = []
    for row in candidates:
        number, prio = row.autocluster_id, row.job_prio
        autocluster = autoclusters.get(number)
        if autocluster is None:
            continue
        if autocluster.submitter not in needs:
            needs[autocluster.submitter] = shares.need(autocluster.submitter)
        key = (
            queue_order.get(autocluster.queue, len(queue_order)),
            needs[autocluster.submitter],
            autocluster.submitter,
            -prio,
            positions.last(number, prio),
            number,
        )
        ordered.append((key, Choice(autocluster, prio, row.limited)))
    ordered.sort(key=lambda pair: pair[0])
    choices = [choice for _, choice in ordered]
    if not slot.ranks:
        return (choice for choice in choices if _rank_if_fits(slot, choice.autocluster) is not None)
    ranks = [_rank_if_fits(slot, choice.autocluster) for choice in choices]
    best = [(rank, choice) for rank, choice in zip(ranks, choices, strict=True) if rank is not None]
    # the sort keeps the order of what ranks the same
    best.sort(key=lambda pair: -pair[0])
    return iter([choice for _, choice in best])


def _rank_if_fits(slot: SlotView, autocluster: Autocluster) -> float | None:
    if autocluster.request is None:
        return 0.0
    return slot.rank_if_fits(autocluster.autocluster_id, autocluster.request)


class Unrivalled(Iterator[Choice]):
    """The choices of a slot without those whose jobs would rather run on one of the ``others``, and may."""

    def __init__(self, choices: Iterator[Choice], slot: SlotView, others: Sequence[SlotView]) -> None:
        self._choices = choices
        self._slot = slot
        self._others = others
        #: choices that were left to the others so far
        self.left_to_others = 0

    def __next__(self) -> Choice:
        for choice in self._choices:
            request = choice.autocluster.request
            if not self._others or request is None or not outranked(request, self._slot, self._others):
                return choice
            self.left_to_others += 1
        raise StopIteration
