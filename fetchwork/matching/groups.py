"""Accounting groups with quotas: what is due to each, by the rules of HTCondor's negotiator.

The negotiator allocates a number of slots to each group at each cycle: its quota, as far as it asks for that
much, and a part of what other groups leave, if it takes surplus (``GroupEntry::hgq_fairshare``,
``hgq_allocate_surplus`` and ``strict_enforce_quota`` in HTCondor's source, observed on 23.9.6). A queue that
hosts pull from has no cycle: these numbers, from counts that are at most a second old, order the submitters
whenever a slot asks. All numbers are weighted slots (SlotWeight).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

#: HTCondor's name for the root group: submitters without a group
NONE = "<none>"
#: the fractions of its multiples are spread evenly
GOLDEN_RATIO = 0.6180339887498949
#: a difference that is rounding
TINY = 1e-6
#: seconds for which a slot that a run freed counts as its group's, unless it is claimed (count_groups)
FREED_S = 5.0


class GroupRow(Protocol):
    """The columns read here of a row of ``fetchwork.read_groups``."""

    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def accept_surplus(self) -> bool: ...
    @property
    def autoregroup(self) -> bool: ...
    @property
    def subtree_quota(self) -> float: ...
    @property
    def quota(self) -> float: ...
    @property
    def in_use(self) -> float: ...
    @property
    def subtree_in_use(self) -> float: ...
    @property
    def requested(self) -> float: ...
    @property
    def free(self) -> float: ...
    @property
    def own_free(self) -> float: ...
    @property
    def own_slots(self) -> float: ...
    @property
    def age_s(self) -> float: ...


@dataclass(slots=True, eq=False)
class _Group:
    """A group of the tree. ``wanted`` and ``subtree_wanted`` are requests that have no slot yet."""

    row: GroupRow
    below: list[_Group] = field(default_factory=list)
    allocated: float = 0.0
    wanted: float = 0.0
    subtree_wanted: float = 0.0

    def allocate(self) -> float:
        """Allocate quotas, and what is left of them within the subtree; return what is still left."""
        self.allocated = min(self.row.requested, self.row.quota)
        self.wanted = self.subtree_wanted = self.row.requested - self.allocated
        surplus = self.row.quota - self.allocated
        for group in self.below:
            surplus += group.allocate()
            if group.row.accept_surplus:
                self.subtree_wanted += group.subtree_wanted
        return self.take_surplus(surplus)

    def take_surplus(self, surplus: float) -> float:
        """Allocate a surplus within the subtree; return what is left of it.

        The group competes with its sub-groups: first those with quotas, by these, then equally those without.
        """
        if surplus <= TINY or self.subtree_wanted <= TINY:
            return max(0.0, surplus)
        takers = [group for group in self.below if group.row.accept_surplus]
        wanted = [*(group.subtree_wanted for group in takers), self.wanted]
        quotas = [*(group.row.subtree_quota for group in takers), self.row.quota]
        given = _divided(surplus, wanted, quotas)
        for group, part in zip(takers, given, strict=False):
            if part > 0.0:
                group.take_surplus(part)
        self.allocated += given[-1]
        self.wanted -= given[-1]
        self.subtree_wanted -= sum(given)
        return surplus - sum(given)


def _divided(surplus: float, wanted: Sequence[float], quotas: Sequence[float]) -> list[float]:
    """The parts of a surplus: in the ratio of the quotas, none more than wanted; the rest in equal parts."""
    given = [0.0] * len(wanted)
    for weights in (quotas, [1.0] * len(wanted)):
        while surplus > TINY:
            hungry = [n for n, most in enumerate(wanted) if most - given[n] > TINY and weights[n] > 0.0]
            total = sum(weights[n] for n in hungry)
            if not hungry:
                break
            parts = {n: min(surplus * weights[n] / total, wanted[n] - given[n]) for n in hungry}
            for n, part in parts.items():
                given[n] += part
            surplus -= sum(parts.values())
    return given


def allocations(rows: Iterable[GroupRow]) -> dict[str, float]:
    """The slots that the negotiator would allocate to each group's own submitters.

    Without the bounds of ``NEGOTIATOR_STRICT_ENFORCE_QUOTA`` on groups above, which ``dues`` adds.
    """
    groups = {row.name: _Group(row) for row in rows}
    for group in groups.values():
        if group.row.parent is not None:
            groups[group.row.parent].below.append(group)
    if NONE in groups:
        groups[NONE].allocate()
    return {name: group.allocated for name, group in groups.items()}


def dues(rows: Sequence[GroupRow]) -> dict[str, float]:
    """The slots that each group's own submitters may hold: its quota at least, and its part of the surplus.

    No more than the groups above it leave that take no surplus (``NEGOTIATOR_STRICT_ENFORCE_QUOTA``).
    """
    known = {row.name: row for row in rows}
    due: dict[str, float] = {}
    for name, allocated in allocations(rows).items():
        row = known[name]
        more = max(allocated, row.quota) - row.in_use
        above: GroupRow | None = row
        while above is not None:
            if not above.accept_surplus:
                more = min(more, max(0.0, above.subtree_quota - above.subtree_in_use))
            above = known[above.parent] if above.parent is not None else None
        due[name] = row.in_use + more
    return due


class GroupDues:
    """The due and the use of each group, and what this host has claimed and freed since that was counted.

    The count has a slot that a run freed within ``FREED_S`` as still in use by the run's group: its host is
    about to claim for it again. So each host gives the slots that it frees (``freed``: group and weight) to
    the groups that had them, unless another group is below its due, and leaves alone those of others.

    This host knows its own claims (``claims``) and expects others for each of them: otherwise many hosts with
    the same counts would each give a group all that is due to it. A group's due is rarely a whole number of
    claims of each host, so the hosts round it at different points, which their ids spread evenly.
    """

    def __init__(
        self,
        rows: Sequence[GroupRow],
        host: int = 0,
        claims: Sequence[tuple[str, float]] = (),
        freed: Sequence[tuple[str, float]] = (),
    ) -> None:
        self._due = dues(rows)
        self._quota = {row.name: row.quota for row in rows}
        self._in_use = {row.name: row.in_use for row in rows}
        #: claims of this host since the count, less the slots that it has freed
        self._own: dict[str, float] = {}
        #: the slots of the host that were free at the count, and not freed just before
        self._idle = max((row.own_free for row in rows), default=0.0)
        self._idle += sum(weight for _, weight in claims) - sum(weight for _, weight in freed)
        self._pool_idle = rows[0].free if rows else 0.0
        own_slots = max((row.own_slots for row in rows), default=0.0)
        #: slots of the pool for each of this host's
        self._most = max(1.0, rows[0].subtree_quota / own_slots) if rows and own_slots > 0.0 else 1.0
        self._freed = 0
        self._rounding = {
            row.name: (host + number) * GOLDEN_RATIO % 1.0 if host else 0.0 for number, row in enumerate(rows)
        }
        #: these compete for what is left, as the negotiator lets them at the end of a cycle
        self._last = {row.name for row in rows if row.autoregroup}
        if self._last:
            self._last.add(NONE)
        for group, weight in claims:
            self.claimed(group, weight)
        for group, weight in freed:
            self.freed(group, weight)

    def claimed(self, group: str, weight: float) -> None:
        """Count a slot that this host has claimed for a submitter of the group, or given back (negative)."""
        self._own[group] = self._own.get(group, 0.0) + weight

    def freed(self, group: str, weight: float) -> None:
        """Count a slot of this host that a submitter of the group has no longer in use."""
        self._own[group] = self._own.get(group, 0.0) - weight
        self._freed += 1

    @property
    def _expected(self) -> float:
        """The slots that the pool claims or frees for each of this host."""
        if self._idle > TINY:
            return min(self._most, max(1.0, self._pool_idle / self._idle))
        # a host that frees several slots at once takes it that the others do
        return self._most if self._freed > 1 else 1.0

    def _used(self, group: str, own: float) -> float:
        return max(0.0, self._in_use.get(group, 0.0) + own)

    def figures(self, group: str) -> tuple[float, float]:
        """The weighted slots that the group's own submitters have, and those that are due to them."""
        own = self._own.get(group, 0.0)
        return self._used(group, own * self._expected if own > 0.0 else own), self._due.get(group, 0.0)

    def turn(self, group: str, more: float = 0.0) -> tuple[int, float]:
        """The group's place in the order of groups, the lowest first; ``more`` is about to be its.

        First are groups below their due, in the order of the negotiator (``GROUP_SORT_EXPR``): the one with
        the least part of its quota in use, then those without a quota, then "<none>". Then come those that
        compete for what is left, "<none>" with all of its own, and then groups that have more than their due.
        """
        due, quota = self._due.get(group, 0.0), self._quota.get(group, 0.0)
        own, expected = self._own.get(group, 0.0) + more, self._expected
        used = self._used(group, own * expected if own > 0.0 else own)
        # a slot that this host has freed is not a part of what all hosts have to round
        rounding = self._rounding.get(group, 0.0) * expected if own > -TINY else 0.0
        # as the negotiator: a slot needs room below the due, unless that is less than one slot
        is_below = used + rounding < (math.floor(due + TINY) if due >= 1.0 else due) - TINY
        if group in self._last and (group == NONE or not is_below):
            return 3, 0.0
        if not is_below:
            # all hosts may be here at once: they do not all begin with the same group
            return 4, (self._used(group, own * expected) + rounding) / max(due, TINY)
        if group == NONE:
            return 2, used / due
        return (0, used / quota) if quota > 0.0 else (1, used / due)
