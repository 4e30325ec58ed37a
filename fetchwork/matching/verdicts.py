"""A cache of verdicts: whether an autocluster may run on a slot, with both ranks and the weight."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fetchwork.matching.fit import JobRequest, SlotView, rank_of
from fetchwork.matching.shares import SlotWeights

#: most verdicts kept, of about 200 bytes each
MAX_VERDICTS = 200_000
#: seconds for which a verdict is valid if it depends on more than the two ads: an expression may read the
#: time
UNSURE_LIFE_S = 10.0


@dataclass(slots=True)
class Verdict:
    """The result of evaluating an autocluster against a slot."""

    #: the slot's Rank of the job; None if it may not run there
    rank: float | None
    #: the job's Rank of the slot, None until it is needed
    job_rank: float | None = None
    #: the cost to the job of a second of the slot, None until it is needed
    weight: float | None = None


#: by autocluster
Table = dict[int, Verdict]


@dataclass(slots=True)
class KnownSlot:
    """A slot's ad and the verdicts on it, in a table for each set of slot attributes that jobs refer to."""

    view: SlotView
    tables: dict[frozenset[str] | None, Table] = field(default_factory=dict)
    unsure_until: float = 0.0
    _lasting: dict[frozenset[str] | None, bool] = field(default_factory=dict)
    _weights: SlotWeights | None = None

    def lasts(self, names: frozenset[str] | None) -> bool:
        """Whether verdicts for jobs that refer to ``names`` stay valid while the slot's clocks change."""
        if names not in self._lasting:
            self._lasting[names] = names is not None and self.view.has_no_clock_in(names)
        return self._lasting[names]

    def weight(self, verdict: Verdict, request: JobRequest) -> float:
        """Return the cost to a job of a second of the slot."""
        if verdict.weight is None:
            if self._weights is None:
                self._weights = SlotWeights(self.view.ad)
            verdict.weight = self._weights.of(request.ad)
        return verdict.weight


class Verdicts:
    """All cached verdicts. The cache is bounded; the least recently used table is dropped first.

    An autocluster never changes, so its number identifies its ad.
    """

    def __init__(self, limit: int = MAX_VERDICTS) -> None:
        self._tables: OrderedDict[bytes, Table] = OrderedDict()
        self._limit = limit
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def table(self, slot: KnownSlot, names: frozenset[str] | None) -> Table:
        """Return this slot's table of verdicts for jobs that refer to ``names`` (``JobRequest.names``)."""
        table = slot.tables.get(names)
        if table is None:
            digest = slot.view.digest(names) if names is not None else None
            table = {} if digest is None else self._tables.setdefault(digest, {})
            if digest is None:
                # the table of verdicts that are valid for a short time
                table = slot.tables.setdefault(None, table)
            else:
                self._tables.move_to_end(digest)
            slot.tables[names] = table
        return table

    def put(self, slot: KnownSlot, table: Table, number: int, request: JobRequest) -> Verdict:
        """Evaluate an autocluster on a slot and keep the verdict; raises the evaluation's exceptions."""
        view = slot.view
        fits = view.shortage(request) is None and view.job_accepts(request)
        verdict = table[number] = Verdict(view.opinion(request) if fits else None)
        self._known += 1
        return verdict

    def begin(self, slots: Iterable[KnownSlot]) -> None:
        """Begin a match round for these slots: drop their time-dependent verdicts that are too old."""
        now = time.monotonic()
        for slot in slots:
            if now >= slot.unsure_until:
                if unsure := slot.tables.get(None):
                    unsure.clear()
                slot.unsure_until = now + UNSURE_LIFE_S

    def trim(self, slots: Iterable[KnownSlot]) -> None:
        """Drop verdicts beyond the limit; ``slots`` are all slots that are kept."""
        if self._known <= self._limit:
            return
        for slot in slots:
            slot.tables.clear()
        self._known = sum(len(table) for table in self._tables.values())
        while self._known > self._limit // 2:
            self._known -= len(self._tables.popitem(last=False)[1])


def outranked(
    number: int,
    request: JobRequest,
    slot: KnownSlot,
    own: Verdict,
    others: Sequence[KnownSlot],
    verdicts: Verdicts,
) -> bool:
    """Whether the job may run on one of ``others`` and ranks it above ``slot``, whose verdict is ``own``."""
    if request.rank is None:
        return False
    seen: set[int] = set()
    for other in others:
        table = verdicts.table(other, request.names)
        # slots with equal digests share one table
        if id(table) in seen:
            continue
        seen.add(id(table))
        verdict = table.get(number) or verdicts.put(other, table, number, request)
        if verdict.rank is not None and _job_rank(verdict, request, other) > _job_rank(own, request, slot):
            return True
    return False


def _job_rank(verdict: Verdict, request: JobRequest, slot: KnownSlot) -> float:
    if verdict.job_rank is None:
        verdict.job_rank = 0.0 if request.rank is None else rank_of(request.rank, request.ad, slot.view.ad)
    return verdict.job_rank
