"""The ads that the present worker has received, so that none is sent twice."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matchmaker.bounds import SENT_BYTES
from fetchwork.matchmaker.matchform import MatchRequest, SentAd, SentLook
from fetchwork.matchmaker.messages import Look

#: slots' ads that the worker keeps
MAX_SLOTS = 512


class WorkersKnowledge:
    """The worker's autoclusters, and its slots' ads with their numbers in messages."""

    def __init__(self) -> None:
        self.ads: set[int] = set()
        self.slots: dict[bytes, int] = {}
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """Forget all: there is a new worker, which has nothing."""
        self.ads.clear()
        self.slots.clear()

    def new_slot(self, ad: bytes) -> int:
        """Return a number for a slot's ad that is about to be sent."""
        number = self.slots[ad] = next(self._numbers)
        return number

    def request_for(
        self,
        looks: Sequence[Look],
        lists: Sequence[Sequence[int]],
        ads: Mapping[int, Autocluster],
        allowances: dict[str, float],
    ) -> MatchRequest:
        """Return the match request for these looks, with the autoclusters that each may match."""
        request = MatchRequest(allowances=allowances)
        if len(self.slots) > MAX_SLOTS:
            request.old_slots = list(self.slots.values())
            self.slots.clear()
        for text in {text for look in looks for text in (look.slot, *look.others)}:
            if text not in self.slots:
                request.slots[self.new_slot(text)] = text_of(text)
        # looks with the same list share it
        numbers: dict[int, int] = {}
        for look, ids in zip(looks, lists, strict=True):
            if id(ids) not in numbers:
                numbers[id(ids)] = len(request.ids)
                request.ids.append(ids)
            others = [self.slots[text] for text in look.others]
            request.looks.append(
                SentLook(self.slots[look.slot], others, look.limit, numbers[id(ids)], look.learns)
            )
        request.ads = self._unsent(request, ads)
        return request

    def _unsent(self, request: MatchRequest, ads: Mapping[int, Autocluster]) -> list[SentAd]:
        """Return ads that the worker lacks and may evaluate, up to ``SENT_BYTES`` for each submitter."""
        sent: dict[int, SentAd] = {}
        sizes: dict[str, int] = {}
        for ids in request.ids:
            if self.ads.issuperset(ids):
                continue
            for number in ids:
                ad = ads[number]
                size = sizes.get(ad.submitter, 0)
                if (
                    number in self.ads
                    or number in sent
                    or size >= SENT_BYTES
                    or ad.submitter not in request.allowances
                ):
                    continue
                text = ad.text.encode()
                sizes[ad.submitter] = size + len(text)
                sent[number] = SentAd(number, ad.submitter, ad.owner, text)
        return list(sent.values())


def text_of(ad: bytes) -> str:
    """Return a slot's ad as text for a message."""
    return ad.decode("utf-8", "replace")
