"""The order in which autoclusters are offered to a slot.

The database says which autoclusters have waiting jobs (``demand``). This module orders them as HTCondor's
negotiator would. The matchmaker then evaluates them against the slot's ad in this order, until it has enough:

1. the slot's own ``Rank``, if it defines one: the matchmaker evaluates all autoclusters against such a slot;
2. the keyword's queues, in the order of the host file;
3. the accounting group furthest below what is due to it, where groups have quotas (``GroupDues.turn``), and
   in it the submitter furthest below its share (``Shares.need``), so that the numbers of slots of two
   submitters settle at the inverse ratio of their priority factors;
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
from fetchwork.matching.shares import Shares, Turn


class CandidateRow(Protocol):
    """The columns read here of an autocluster and a priority at which jobs wait."""

    @property
    def autocluster_id(self) -> int: ...
    @property
    def job_prio(self) -> int: ...


class Choice(NamedTuple):
    """One autocluster and priority that a slot may be given."""

    autocluster: Autocluster
    prio: int


#: a queue and a submitter; the choices of a group follow each other
Group = tuple[str, str]
#: most choices in all cached orders; slots with different sets of candidates have an order each
MAX_ORDERED = 20_000


class Groups:
    """The choices of each queue and submitter in their order, kept from match round to match round.

    A busy queue has thousands of choices, and between two match rounds only a few positions change.
    """

    def __init__(self, candidates: Iterable[CandidateRow], known: Mapping[int, Autocluster]) -> None:
        self._groups: dict[Group, list[Choice]] = {}
        self._of: dict[tuple[int, int], Group] = {}
        #: some choices are barred from certain slots or hosts even if their resource amounts fit
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
        """Return each group in its order, the first choice first; later positions in the queue reorder it."""
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
    """The groups of recent candidate lists, by their pairs; they stay right: autoclusters never change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[tuple[int, int], ...], Groups] = OrderedDict()
        self._choices = 0

    def groups(self, candidates: Sequence[Waiting], autoclusters: Autoclusters) -> Groups:
        """Return the groups of these candidates, without autoclusters that are not cached."""
        key = tuple([candidate.pair for candidate in candidates])
        groups = self._kept.get(key)
        if groups is not None:
            self._kept.move_to_end(key)
            return groups
        groups = Groups(candidates, autoclusters.known)
        # a missing autocluster may be read before the next match round, so incomplete groups are not kept
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
    """Return the candidates in the order of offering, without autoclusters that are not cached."""
    groups = Groups(candidates, autoclusters.known).sorted_by(positions)
    queue_order = {queue: number for number, queue in enumerate(queues)}

    def group_order(group: Group) -> tuple[int, Turn, str, str]:
        queue, submitter = group
        return queue_order.get(queue, len(queue_order)), shares.turn(submitter), submitter, queue

    return [choice for group in sorted(groups, key=group_order) for choice in groups[group]]
