"""Fair share: each submitter's need of a slot, and the cost of a second of a slot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fetchwork.classad.values import ClassAd, evaluate, number
from fetchwork.matching.groups import FREED_S, NONE, GroupDues, GroupRow

#: the factor of a submitter that is not in the table yet (HTCondor's DEFAULT_PRIO_FACTOR)
DEFAULT_FACTOR = 1000.0


class ShareRow(Protocol):
    """The columns read here of a row of ``fetchwork.shares``."""

    @property
    def submitter(self) -> str: ...
    @property
    def prio_factor(self) -> float: ...
    @property
    def effective_prio(self) -> float: ...
    @property
    def running(self) -> int: ...
    @property
    def accounting_group(self) -> str | None: ...


#: the order of the submitter's group (``GroupDues.turn``), and its need within the group
Turn = tuple[int, float, float]


@dataclass(slots=True)
class _Slot:
    """A slot with this weight that this host claimed or freed for a group at a monotonic time."""

    at: float
    group: str
    weight: float
    #: of a freed one: when this host claimed a slot again
    claimed_at: float = float("inf")


@dataclass(slots=True)
class Shares:
    """Each submitter's effective priority and slots in use, plus this host's claims since it last asked.

    A submitter's need is its factor times the sum of past usage and slots in use; the lowest need is next.
    Real priority is decayed used slots, so both terms are counted in slots. With endless jobs of all
    submitters the shares settle at the inverse of the factors. HTCondor's negotiator divides its pie by the
    product of the two, which settles at the inverse of the factors' square roots
    (tests/benchmarks/bench_fairness.py). The slots in use keep a newcomer from getting all free slots until
    its usage is recorded.

    The order of accounting groups with quotas comes before that of their submitters.
    """

    effective_prio: dict[str, float] = field(default_factory=dict)
    in_use: dict[str, float] = field(default_factory=dict)
    factor: dict[str, float] = field(default_factory=dict)
    group: dict[str, str] = field(default_factory=dict)
    #: None: no group has a quota
    dues: GroupDues | None = None
    asked_at: float = float("-inf")
    #: claims since the groups were counted
    _claims: list[_Slot] = field(default_factory=list)
    #: freed slots that the count has as their groups'
    _freed: list[_Slot] = field(default_factory=list)

    def update(
        self, rows: Iterable[ShareRow], now: float, groups: Sequence[GroupRow] = (), host: int = 0
    ) -> None:
        """Take rows of ``fetchwork.shares``, and those of ``fetchwork.read_groups`` for a host."""
        self.effective_prio, self.in_use, self.factor, self.group = {}, {}, {}, {}
        # the count does not have the claims after it
        counted_at = now - max((row.age_s for row in groups), default=0.0)
        self._claims = [claim for claim in self._claims if groups and claim.at > counted_at]
        self._freed = [
            slot
            for slot in self._freed
            if groups and slot.claimed_at > counted_at and slot.at > counted_at - FREED_S
        ]
        self.dues = GroupDues(groups, host, _weights(self._claims), _weights(self._freed)) if groups else None
        for row in rows:
            self.factor[row.submitter] = row.prio_factor
            self.effective_prio[row.submitter] = row.effective_prio
            self.in_use[row.submitter] = row.running
            if row.accounting_group is not None:
                self.group[row.submitter] = row.accounting_group
        self.asked_at = now

    def claimed(self, submitter: str, slots: float = 1.0, weight: float = 1.0) -> None:
        """Count a job of ``submitter`` that this host has claimed, or given back (``slots`` -1)."""
        self.in_use[submitter] = max(0.0, self.in_use.get(submitter, 0.0) + slots)
        if self.dues is not None:
            group, now = self.group_of(submitter), time.monotonic()
            self.dues.claimed(group, slots * weight)
            self._claims.append(_Slot(now, group, slots * weight))
            # one freed slot is as good as another
            again = next((slot for slot in self._freed if slot.claimed_at > now), None)
            if slots > 0.0 and again is not None:
                again.claimed_at = now

    def freed(self, submitter: str, weight: float = 1.0) -> None:
        """Count a slot of this host that a job of ``submitter`` had until now."""
        if self.dues is not None:
            group = self.group_of(submitter)
            self.dues.freed(group, weight)
            self._freed.append(_Slot(time.monotonic(), group, weight))

    def group_of(self, submitter: str) -> str:
        """Return the submitter's accounting group with a quota."""
        return self.group.get(submitter, NONE)

    def turn(self, submitter: str, more: int = 0, of_group: float = 0.0) -> Turn:
        """Return the submitter's place in the order; the lowest gets the next slot.

        ``more`` slots are about to be its, and slots with the weight ``of_group`` its group's.
        """
        group = self.dues.turn(self.group_of(submitter), of_group) if self.dues is not None else (0, 0.0)
        return *group, self.need(submitter, more)

    def need(self, submitter: str, more: int = 0) -> float:
        """Return the submitter's need; the lowest gets the next slot. ``more`` slots are about to be its."""
        factor = self.factor.get(submitter, DEFAULT_FACTOR)
        # no real priority is below a half
        used = self.effective_prio.get(submitter, 0.5 * factor)
        return used + factor * (self.in_use.get(submitter, 0.0) + more + 1.0)


def _weights(slots: Iterable[_Slot]) -> list[tuple[str, float]]:
    return [(slot.group, slot.weight) for slot in slots]


class SlotWeights:
    """The cost of a second of a slot: its ``SlotWeight``; in a partitionable slot, that of the job's part."""

    def __init__(self, slot: ClassAd) -> None:
        self._slot = slot
        self._carved: ClassAd | None = None
        self._weight = _weight(slot) if "SlotWeight" in slot else 1.0
        if "SlotWeight" in slot and slot.get("SlotType") == "Partitionable":
            self._carved = ClassAd()
            self._carved.update({name: slot.lookup(name) for name in slot})

    def of(self, request: ClassAd) -> float:
        """Return the weight of the slot that a job with this ad would get."""
        if self._carved is None:
            return self._weight
        for resource in ("Cpus", "Memory", "Disk"):
            asked = evaluate(request, f"Request{resource}", self._slot)
            if number(asked, finite=False) is not None:
                self._carved[resource] = asked
            elif resource in self._slot:
                self._carved[resource] = self._slot.lookup(resource)
        return _weight(self._carved)


def whole_weight(slot: ClassAd) -> float:
    """The weight of a slot, of a partitionable one with all its resources, as quotas count the pool."""
    if slot.get("SlotType") != "Partitionable" or "SlotWeight" not in slot:
        return SlotWeights(slot).of(ClassAd())
    whole = ClassAd()
    whole.update({name: slot.lookup(name) for name in slot})
    for resource in ("Cpus", "Memory", "Disk", "GPUs"):
        if f"TotalSlot{resource}" in slot:
            whole[resource] = slot.lookup(f"TotalSlot{resource}")
    return _weight(whole)


def _weight(slot: ClassAd) -> float:
    weight = number(evaluate(slot, "SlotWeight"))
    return weight if weight is not None and weight > 0 else 1.0
