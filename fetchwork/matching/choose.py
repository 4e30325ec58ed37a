"""Which autoclusters a slot may get, and in which order.

The database says what waits (``demand``). It is ordered here as HTCondor's negotiator would, and then put
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
from typing import NamedTuple, Protocol

from fetchwork.matching.autoclusters import Autocluster, Autoclusters
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares


class CandidateRow(Protocol):
    """What is looked at of an autocluster and a priority that wait."""

    @property
    def autocluster_id(self) -> int: ...
    @property
    def job_prio(self) -> int: ...


class Choice(NamedTuple):
    """One autocluster and priority that a slot may be given."""

    autocluster: Autocluster
    prio: int


def order(
    candidates: Iterable[CandidateRow],
    *,
    autoclusters: Autoclusters,
    positions: Positions,
    shares: Shares,
    queues: Sequence[str],
) -> list[Choice]:
    """The candidates, the one to offer first at the front; those that are not cached are left out."""
    # a thousand of them at each fetch: the few submitters are put in order, and each one's own by itself
    groups: dict[tuple[str, str], list[tuple[int, int, int, int, Choice]]] = {}
    position_of, autocluster_of = positions.known.get, autoclusters.known.get
    for row in candidates:
        number, prio = row.autocluster_id, row.job_prio
        autocluster = autocluster_of(number)
        if autocluster is None:
            continue
        name = autocluster.queue, autocluster.submitter
        group = groups.get(name)
        if group is None:
            group = groups[name] = []
        # the length decides before two choices are compared
        group.append(
            (
                -prio,
                position_of((number, prio), 0),
                number,
                len(group),
                Choice(autocluster, prio),
            )
        )
    autoclusters.used(choice.autocluster for group in groups.values() for *_, choice in group)
    queue_order = {queue: number for number, queue in enumerate(queues)}

    def group_order(name: tuple[str, str]) -> tuple[int, float, str, str]:
        queue, submitter = name
        return queue_order.get(queue, len(queue_order)), shares.need(submitter), submitter, queue

    choices: list[Choice] = []
    for name in sorted(groups, key=group_order):
        group = groups[name]
        group.sort()
        choices += [choice for _, _, _, _, choice in group]
    return choices
