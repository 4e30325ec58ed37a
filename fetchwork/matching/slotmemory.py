"""What slots' ads said before, and which autoclusters fitted: a slot asks again, changed in its clocks alone.

An ad is known again whose text differs from an earlier one's in nothing but the numbers of attributes that
run by themselves (``clocks``). A verdict is remembered only where it depends on none of these, nor on the
time or chance (``KnownSlot.lasts``), nor on the slots beside it; an autocluster never changes. So what is
remembered of a slot's text is true for as long as the text is the same: nothing has to be told of a change.

What is kept here is bounded, and may be forgotten at any time.
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

#: slots' texts that are kept, and verdicts of all of them, each some 100 bytes
MAX_SLOTS = 512
MAX_VERDICTS = 200_000

#: what of an ad is evaluated as soon as it is read
_EVALUATED = ("Cpus", "Memory", "Disk", "GPUs")


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """What a fetch looks at of its slot's ad."""

    name: str
    #: why the slot can't be given a job now; "busy" if it can once its job has ended
    not_now: NotNow | None
    resources: Resources
    partitionable: bool
    #: the slot likes some jobs better than others
    ranks: bool
    #: the startd loses nothing while its fetch waits: it is not claimed
    unclaimed: bool

    @classmethod
    def of(cls, ad: ClassAd) -> SlotFacts:
        """Read them; ClassAdError where the slot has no name."""
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
    """A slot's text: what it says, and what is known of autoclusters on it."""

    key: bytes
    facts: SlotFacts
    #: what a second of the slot costs each autocluster that fits
    weights: dict[int, float] = field(default_factory=dict)
    misfits: set[int] = field(default_factory=set)
    #: verdicts on it may last
    learns: bool = True
    #: what was looked through last, how many misfits were known then, and what may fit of it
    _looked: tuple[Sequence[Waiting], int, Sequence[Waiting]] | None = None

    @property
    def verdicts(self) -> int:
        """How many are kept."""
        return len(self.weights) + len(self.misfits)

    def forget(self) -> None:
        """Nothing is known any more, not even to a fetch that waits."""
        self.weights.clear()
        self.misfits.clear()
        self._looked = None

    def may_fit(self, waiting: Sequence[Waiting]) -> Sequence[Waiting]:
        """What waits without what is known not to fit; of one list that does not change, found once."""
        misfits = self.misfits
        if not misfits:
            return waiting
        if self._looked is None or self._looked[0] is not waiting or self._looked[1] != len(misfits):
            found = [one for one in waiting if one.autocluster_id not in misfits]
            self._looked = (waiting, len(misfits), found)
        return self._looked[2]

    def weigh(self, numbers: Iterable[int], limit: int) -> list[tuple[int, float]] | None:
        """The first autoclusters that fit, by their index in ``numbers``; None if one is not known."""
        found: list[tuple[int, float]] = []
        for index, number in enumerate(numbers):
            weight = self.weights.get(number)
            if weight is not None:
                found.append((index, weight))
                if len(found) >= limit:
                    break
            elif number not in self.misfits:
                return None
        return found


class SlotMemory:
    """The slots that a process has seen lately."""

    def __init__(self, slots: int = MAX_SLOTS, verdicts: int = MAX_VERDICTS) -> None:
        self._slots: OrderedDict[bytes, RememberedSlot] = OrderedDict()
        self._most_slots, self._most_verdicts = slots, verdicts
        self._verdicts = 0

    def __len__(self) -> int:
        return len(self._slots)

    def read(self, text: bytes) -> tuple[SlotFacts, RememberedSlot | None]:
        """What a slot's ad says, and what is remembered of it; None where nothing can be.

        Raises ClassAdError for an ad that can't be read.
        """
        key = without_clocks(text)
        known = self._slots.get(key)
        if known is not None:
            self._slots.move_to_end(key)
            return known.facts, known
        ad = parse_old(text)
        facts = SlotFacts.of(ad)
        # what is computed may be computed from a clock
        if any(isinstance(ad.get(name), ExprTree) for name in _EVALUATED):
            return facts, None
        known = self._slots[key] = RememberedSlot(key, facts)
        self._trim()
        return facts, known

    def learn(self, slot: RememberedSlot, weights: Mapping[int, float], misfits: Iterable[int]) -> None:
        """These verdicts on a slot last."""
        if self._slots.get(slot.key) is not slot:
            # it was forgotten meanwhile
            return
        self._verdicts -= slot.verdicts
        slot.weights.update(weights)
        slot.misfits.update(misfits)
        self._verdicts += slot.verdicts
        self._trim()

    def forget(self) -> None:
        """It is another database, or may be: numbers may stand for other autoclusters."""
        for slot in self._slots.values():
            slot.forget()
        self._slots.clear()
        self._verdicts = 0

    def _trim(self) -> None:
        while len(self._slots) > self._most_slots or self._verdicts > self._most_verdicts:
            _, slot = self._slots.popitem(last=False)
            self._verdicts -= slot.verdicts
            slot.forget()
