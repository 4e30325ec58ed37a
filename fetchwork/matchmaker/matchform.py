"""The request to match, as the agent makes it and as the worker reads it.

Lists of ids and texts of ads travel as bytes behind the JSON: as JSON they would cost more than the matching.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class SentAd:
    """An autocluster that the worker does not have yet."""

    autocluster_id: int
    submitter: str
    owner: str
    text: bytes


@dataclass(slots=True)
class SentLook:
    """One look: numbers of slots, and of the list of ids that it goes through."""

    slot: int
    others: list[int]
    limit: int
    ids: int
    #: it is asked which verdicts last
    learns: bool = False


@dataclass(slots=True)
class MatchRequest:
    """What the worker is told and asked."""

    ads: list[SentAd] = field(default_factory=list)
    #: slots' ads by their numbers
    slots: dict[int, str] = field(default_factory=dict)
    #: slots that will not be named again
    old_slots: list[int] = field(default_factory=list)
    #: seconds of CPU that may be taken for each submitter; what was found out before takes none
    allowances: dict[str, float] = field(default_factory=dict)
    #: autoclusters in the order of preference
    ids: list[Sequence[int]] = field(default_factory=list)
    looks: list[SentLook] = field(default_factory=list)

    def to_message(self) -> tuple[Json, bytes]:
        """As ``frames`` sends it."""
        lists = [array("q", ids).tobytes() for ids in self.ids]
        message = {
            "op": "match",
            "ads": [(ad.autocluster_id, ad.submitter, ad.owner, len(ad.text)) for ad in self.ads],
            "slots": list(self.slots.items()),
            "old_slots": self.old_slots,
            "allowances": self.allowances,
            "ids": [len(data) for data in lists],
            "looks": [asdict(look) for look in self.looks],
        }
        return message, b"".join([*(ad.text for ad in self.ads), *lists])

    @classmethod
    def from_message(cls, message: Json, data: bytes) -> MatchRequest:
        """As ``to_message`` made it."""
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
