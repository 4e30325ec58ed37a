"""The match request, written by the agent and read by the worker.

Lists of ids and texts of ads travel as the frame's data: as JSON they would cost more than the matching.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from fetchwork.ipc.frames import Json


@dataclass(slots=True)
class SentAd:
    """An autocluster that the worker does not have yet."""

    autocluster_id: int
    submitter: str
    owner: str
    text: bytes


@dataclass(slots=True)
class SentLook:
    """A look in a message: numbers of slots, and of its list of autoclusters' ids."""

    slot: int
    others: list[int]
    limit: int
    ids: int
    #: the answer says which verdicts last
    learns: bool = False


@dataclass(slots=True)
class MatchRequest:
    """New data for the worker, and the looks that it has to answer."""

    ads: list[SentAd] = field(default_factory=list)
    #: slots' ads by their numbers
    slots: dict[int, str] = field(default_factory=dict)
    #: slots that later requests will not name
    old_slots: list[int] = field(default_factory=list)
    #: seconds of CPU that may be spent for each submitter; earlier verdicts take none
    allowances: dict[str, float] = field(default_factory=dict)
    #: autoclusters in the order of preference
    ids: list[Sequence[int]] = field(default_factory=list)
    looks: list[SentLook] = field(default_factory=list)

    def to_message(self) -> Json:
        """Return the frame for the worker."""
        lists = [array("q", ids).tobytes() for ids in self.ids]
        return {
            "op": "match",
            "ads": [(ad.autocluster_id, ad.submitter, ad.owner, len(ad.text)) for ad in self.ads],
            "slots": list(self.slots.items()),
            "old_slots": self.old_slots,
            "allowances": self.allowances,
            "ids": [len(data) for data in lists],
            "looks": [asdict(look) for look in self.looks],
            "data": b"".join([*(ad.text for ad in self.ads), *lists]),
        }

    @classmethod
    def from_message(cls, message: Json) -> MatchRequest:
        """Read a request that ``to_message`` made."""
        data: bytes = message["data"]
        at = 0
        ads: list[SentAd] = []
        for number, submitter, owner, size in message["ads"]:
            ads.append(SentAd(number, submitter, owner, data[at : at + size]))
            at += size
        lists: list[Sequence[int]] = []
        for size in message["ids"]:
            lists.append(array("q", data[at : at + size]))
            at += size
        return cls(
            ads,
            dict(message["slots"]),
            message["old_slots"],
            message["allowances"],
            lists,
            [SentLook(**look) for look in message["looks"]],
        )
