"""Which autoclusters a slot may get, and in which order.

The database says what waits (``candidates``). It is ordered here as HTCondor's negotiator would, and then put
against the slot's ad by the matchmaker, in this order, until enough is found:

1. the slot's own ``Rank``, where it defines one: the matchmaker puts all against such a slot;
2. the keyword's queues, in the order of the host file;
3. the submitter that has least of its share (``Shares.need``), so that the slots of two submitters settle
   where they stand in the inverse ratio of their priority factors;
4. JobPrio, among the jobs of one submitter;
5. age: the autocluster whose last job was taken furthest ahead in the queue comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fetchwork.matching.autoclusters import Autocluster, Autoclusters
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


def order(
    candidates: Iterable[CandidateRow],
    *,
    autoclusters: Autoclusters,
    positions: Positions,
    shares: Shares,
    queues: Sequence[str],
) -> list[Choice]:
    """The candidates, the one to offer first at the front; those that are not cached are left out."""
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
    return [choice for _, choice in ordered]
