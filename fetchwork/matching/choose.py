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

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fetchwork.matching.autoclusters import Autocluster, Autoclusters
from fetchwork.matching.demand import Waiting
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


#: a queue and a submitter, whose choices follow each other
Group = tuple[str, str]
#: choices in all the orders that are kept: slots to which different things fit by the numbers have one each
MAX_ORDERED = 20_000


class Groups:
    """The same choices at look after look, of each queue and submitter in their order.

    There are thousands of them at a busy time, and between two looks the position of a few has changed.
    """

    def __init__(self, candidates: Iterable[CandidateRow], known: Mapping[int, Autocluster]) -> None:
        self._groups: dict[Group, list[Choice]] = {}
        self._of: dict[tuple[int, int], Group] = {}
        #: those that not every slot and host may get, whatever the numbers say
        self.have_conditions = False
        for row in candidates:
            autocluster = known.get(row.autocluster_id)
            if autocluster is None:
                continue
            group = autocluster.queue, autocluster.submitter
            self._groups.setdefault(group, []).append(Choice(autocluster, row.job_prio))
            self._of[row.autocluster_id, row.job_prio] = group
            self.have_conditions |= autocluster.has_conditions
        self.autoclusters = {
            choice.autocluster.autocluster_id: choice.autocluster
            for group in self._groups.values()
            for choice in group
        }
        #: the positions' moves when the groups were put in order
        self._moves: int | None = None

    def __len__(self) -> int:
        return len(self._of)

    def sorted_by(self, positions: Positions) -> Mapping[Group, Sequence[Choice]]:
        """Each group, the first to be offered at its front; what is later in the queue may change them."""
        pairs = None if self._moves is None else positions.moved_since(self._moves)
        of = self._of
        moved = set(self._groups) if pairs is None else {of[pair] for pair in pairs if pair in of}
        position_of = positions.known.get

        def age(choice: Choice) -> tuple[int, int, int]:
            number = choice.autocluster.autocluster_id
            return -choice.prio, position_of((number, choice.prio), 0), number

        for group in moved:
            self._groups[group].sort(key=age)
        self._moves = positions.moves
        return self._groups


class Orders:
    """The groups of what was looked at lately, by what it was. An autocluster never changes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[tuple[int, int], ...], Groups] = OrderedDict()
        self._choices = 0

    def groups(self, candidates: Sequence[Waiting], autoclusters: Autoclusters) -> Groups:
        """The groups of these candidates; those of them that are not cached are left out."""
        key = tuple([one.pair for one in candidates])
        groups = self._kept.get(key)
        if groups is not None:
            self._kept.move_to_end(key)
            return groups
        groups = Groups(candidates, autoclusters.known)
        # what is left out may be read before the next look
        if len(groups) == len(key):
            self._kept[key] = groups
            self._choices += len(key)
            while self._choices > MAX_ORDERED:
                self._choices -= len(self._kept.popitem(last=False)[0])
        return groups


def order(
    candidates: Iterable[CandidateRow],
    *,
    autoclusters: Autoclusters,
    positions: Positions,
    shares: Shares,
    queues: Sequence[str],
) -> list[Choice]:
    """The candidates, the one to offer first at the front; those that are not cached are left out."""
    groups = Groups(candidates, autoclusters.known).sorted_by(positions)
    queue_order = {queue: number for number, queue in enumerate(queues)}

    def group_order(group: Group) -> tuple[int, float, str, str]:
        queue, submitter = group
        return queue_order.get(queue, len(queue_order)), shares.need(submitter), submitter, queue

    return [choice for group in sorted(groups, key=group_order) for choice in groups[group]]
