"""Slots' earlier ads and the autoclusters that fitted them: often only a slot's clocks have changed.

An ad counts as known if its text differs from an earlier one only in the numbers of its clocks (``clocks``).
A verdict is remembered only if it depends on no clock, nor on the time or chance (``KnownSlot.lasts``), nor
on the slots beside it; an autocluster never changes. So a verdict on a slot's text is valid for as long as
the text is the same, and needs no notice of changes.

The memory is bounded, and its content may be dropped at any time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import ClassAd, ExprTree
from fetchwork.errors import ClassAdError
from fetchwork.matching.clocks import without_clocks
from fetchwork.matching.demand import Waiting
from fetchwork.matching.slotstate import NotNow, Resources, slot_resources, why_not

#: most slot texts kept, and most verdicts on all of them, of about 100 bytes each
MAX_SLOTS = 512
MAX_VERDICTS = 200_000

#: the attributes of an ad that are evaluated as soon as it is read
_EVALUATED = ("Cpus", "Memory", "Disk", "GPUs")


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The facts that a fetch needs from its slot's ad."""

    name: str
    #: the reason why the slot can't be given a job now; "busy" if it can once its job has ended
    not_now: NotNow | None
    resources: Resources
    partitionable: bool
    #: the slot has a Rank expression, and so prefers some jobs
    ranks: bool
    #: the slot is not claimed, so the startd loses nothing while its fetch waits
    unclaimed: bool

    @classmethod
    def of(cls, ad: ClassAd) -> SlotFacts:
        """Read the facts; raises ClassAdError if the slot has no name."""
        name = ad.get("Name")
        if not isinstance(name, str) or not name:
            raise ClassAdError("the slot ad has no Name")
        return cls(
            name,
            why_not(ad),
            slot_resources(ad),
            ad.get("SlotType") == "Partitionable",
            isinstance(ad.get("Rank"), ExprTree),
            ad.get("State") in ("Unclaimed", "Owner"),
        )


@dataclass(slots=True)
class RememberedSlot:
    """A slot's text with its facts and the verdicts on it."""

    key: bytes
    facts: SlotFacts
    #: for each autocluster that fits: its charge for a second of the slot
    weights: dict[int, float] = field(default_factory=dict)
    misfits: set[int] = field(default_factory=set)
    #: verdicts on the slot may be remembered
    learns: bool = True
    #: the last argument of ``may_fit``, the number of misfits at that time, and the result
    _looked: tuple[Sequence[Waiting], int, Sequence[Waiting]] | None = None

    @property
    def verdicts(self) -> int:
        """The number of verdicts kept."""
        return len(self.weights) + len(self.misfits)

    def forget(self) -> None:
        """Drop all verdicts, also for a fetch that waits."""
        self.weights.clear()
        self.misfits.clear()
        self._looked = None

    def may_fit(self, waiting: Sequence[Waiting]) -> Sequence[Waiting]:
        """Return the waiting pairs without known misfits; computed once for a list that stays the same."""
        misfits = self.misfits
        if not misfits:
            return waiting
        if self._looked is None or self._looked[0] is not waiting or self._looked[1] != len(misfits):
            fitting = [pair for pair in waiting if pair.autocluster_id not in misfits]
            self._looked = (waiting, len(misfits), fitting)
        return self._looked[2]

    def weigh(self, numbers: Iterable[int], limit: int) -> list[tuple[int, float]] | None:
        """Return the first autoclusters that fit, by their index in ``numbers``; None if one is unknown."""
        fitting: list[tuple[int, float]] = []
        for index, number in enumerate(numbers):
            weight = self.weights.get(number)
            if weight is not None:
                fitting.append((index, weight))
                if len(fitting) >= limit:
                    break
            elif number not in self.misfits:
                return None
        return fitting


class SlotMemory:
    """The slots that a process has seen recently."""

    def __init__(self, slots: int = MAX_SLOTS, verdicts: int = MAX_VERDICTS) -> None:
        self._slots: OrderedDict[bytes, RememberedSlot] = OrderedDict()
        self._most_slots, self._most_verdicts = slots, verdicts
        self._verdicts = 0

    def __len__(self) -> int:
        return len(self._slots)

    def read(self, text: bytes) -> tuple[SlotFacts, RememberedSlot | None]:
        """Return the facts of a slot's ad, and the remembered slot; None if it can't be remembered.

        Raises ClassAdError for an ad that can't be read.
        """
        key = without_clocks(text)
        known = self._slots.get(key)
        if known is not None:
            self._slots.move_to_end(key)
            return known.facts, known
        ad = parse_old(text)
        facts = SlotFacts.of(ad)
        # a computed amount may depend on a clock
        if any(isinstance(ad.get(name), ExprTree) for name in _EVALUATED):
            return facts, None
        known = self._slots[key] = RememberedSlot(key, facts)
        self._trim()
        return facts, known

    def learn(self, slot: RememberedSlot, weights: Mapping[int, float], misfits: Iterable[int]) -> None:
        """Remember verdicts on a slot."""
        if self._slots.get(slot.key) is not slot:
            # the slot was dropped meanwhile
            return
        self._verdicts -= slot.verdicts
        slot.weights.update(weights)
        slot.misfits.update(misfits)
        self._verdicts += slot.verdicts
        self._trim()

    def forget(self) -> None:
        """Drop everything: in another database the same numbers may stand for other autoclusters."""
        for slot in self._slots.values():
            slot.forget()
        self._slots.clear()
        self._verdicts = 0

    def _trim(self) -> None:
        while len(self._slots) > self._most_slots or self._verdicts > self._most_verdicts:
            _, slot = self._slots.popitem(last=False)
            self._verdicts -= slot.verdicts
            slot.forget()
