"""Matching in the worker: autoclusters are tried on slots until enough fit or their submitters' time is up.

Earlier verdicts cost nothing, for any submitter. So each look goes through its autoclusters in the order of
preference, and evaluates only those that are new to the worker, as long as their submitter has CPU time in
this request. The rest is left for the next request, which comes at once if nothing fits.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from fetchwork.classad.ads import parse_old
from fetchwork.classad.cost import check_cost
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.errors import ClassAdError
from fetchwork.ipc.frames import Json
from fetchwork.matching.autoclusters import as_offered
from fetchwork.matching.fit import JobRequest, SlotView
from fetchwork.matching.verdicts import KnownSlot, Verdict, Verdicts, outranked
from fetchwork.matchmaker import mark
from fetchwork.matchmaker.bounds import AD_BYTES, KEPT_BYTES
from fetchwork.matchmaker.matchform import MatchRequest, SentLook
from fetchwork.matchmaker.messages import sentence

#: the most sets of slot attributes, as jobs refer to them, for which an expected slot is prepared
_EXPECTED_NAMES = 8


class _Kept:
    """An autocluster that the worker got; its ad is read when it is first tried on a slot."""

    __slots__ = ("names", "owner", "problem", "request", "submitter", "text")

    def __init__(self, submitter: str, owner: str, text: bytes) -> None:
        self.submitter, self.owner, self.text = submitter, owner, text
        self.request: JobRequest | None = None
        #: autoclusters with equal names share the object
        self.names: frozenset[str] | None = None
        #: why its ad can't be read
        self.problem: str | None = None


class _Attempt:
    """The results of a look at one slot so far."""

    def __init__(self, slot: KnownSlot, others: list[KnownSlot], limit: int) -> None:
        self.slot, self.others, self.limit = slot, others, limit
        #: rank, index, autocluster, verdict (None if its ad can't be read)
        self.fitting: list[tuple[float, int, int, Verdict | None]] = []
        self.failed: list[tuple[int, str]] = []
        self.yielded = False
        self.postponed = False
        #: number of autoclusters that were gone through
        self.looked = 0


class Looking:
    """The worker's autoclusters and slots, and its verdicts on them."""

    def __init__(self, at: mark.Mark) -> None:
        self._at = at
        self._autoclusters: OrderedDict[int, _Kept] = OrderedDict()
        self._bytes = 0
        #: autoclusters that were tried on a slot, and the part of them that the agent does not know yet
        self._tried: set[int] = set()
        self._told: list[int] = []
        self._slots: dict[int, KnownSlot | str] = {}
        self._names: dict[frozenset[str], frozenset[str]] = {}
        self._verdicts = Verdicts()
        self._allowances: dict[str, float] = {}
        self._spent: dict[str, float] = {}

    def match(self, request: MatchRequest) -> Json:
        """Match autoclusters with slots: see ``client.Matchmaker.look``."""
        for ad in request.ads:
            self._autoclusters[ad.autocluster_id] = _Kept(ad.submitter, ad.owner, ad.text)
            self._bytes += len(ad.text)
        for number in request.old_slots:
            self._slots.pop(number, None)
        for number, text in request.slots.items():
            self._read_slot(number, text)
        self._allowances, self._spent = request.allowances, {}
        known = [slot for slot in self._slots.values() if isinstance(slot, KnownSlot)]
        self._verdicts.begin(known)
        looks = [self._look(look, request.ids[look.ids]) for look in request.looks]
        self._at.end()
        self._verdicts.trim(known)
        problems = {
            number: self._autoclusters[number].problem
            for look, ids in (
                (look, request.ids[sent.ids]) for look, sent in zip(looks, request.looks, strict=True)
            )
            for number in (ids[index] for index, _ in look["fit"])
            if self._autoclusters[number].problem is not None
        }
        tried, self._told = self._told, []
        return {
            "looks": looks,
            "spent": self._spent,
            "problems": problems,
            "tried": tried,
            "evicted": self._evict(),
        }

    def expect(self, slots: Mapping[int, str]) -> None:
        """Read slots' ads before autoclusters are tried on them."""
        for number, text in slots.items():
            self._read_slot(number, text)
            if isinstance(slot := self._slots[number], KnownSlot):
                # an error shows again, and is blamed, when an autocluster is tried on the slot
                with contextlib.suppress(Exception):
                    for names in itertools.islice(self._names, _EXPECTED_NAMES):
                        self._verdicts.table(slot, names)
        self._at.end()

    def slot_ad(self, number: int) -> ClassAd:
        """Return the ad of a slot that the worker got."""
        slot = self._slots[number]
        if isinstance(slot, str):
            raise ClassAdError(slot)
        return slot.view.ad

    def _read_slot(self, number: int, text: str) -> None:
        self._at.begin(mark.SLOT, number)
        try:
            self._slots[number] = KnownSlot(SlotView(parse_old(text)))
        except Exception as error:
            self._slots[number] = sentence(error)

    def _look(self, look: SentLook, ids: Sequence[int]) -> Json:
        slot = self._slots[look.slot]
        if isinstance(slot, str):
            return {
                "fit": [],
                "failed": [],
                "yielded": False,
                "postponed": False,
                "more": False,
                "problem": slot,
                "looked": 0,
                "unsure": None,
            }
        others = [other for number in look.others if isinstance(other := self._slots[number], KnownSlot)]
        attempt = _Attempt(slot, others, look.limit)
        ranks = slot.view.ranks
        self._go_through(attempt, ids, len(ids) if ranks else look.limit)
        if ranks:
            # stable: autoclusters of equal rank stay in the order of preference
            attempt.fitting.sort(key=lambda fit: -fit[0])
            del attempt.fitting[look.limit :]
        fit = self._weighed(attempt)
        return {
            "fit": fit,
            "failed": attempt.failed,
            "yielded": attempt.yielded,
            "postponed": attempt.postponed,
            # whether another request should follow at once
            "more": attempt.postponed and (ranks or not fit),
            "problem": None,
            "looked": attempt.looked,
            "unsure": self._unsure(attempt, ids) if look.learns else None,
        }

    def _go_through(self, attempt: _Attempt, ids: Sequence[int], enough: int) -> None:
        """Find autoclusters that fit, up to ``enough`` of them."""
        autoclusters, fitting, tables = self._autoclusters, attempt.fitting, attempt.slot.tables
        index = -1
        for index, number in enumerate(ids):
            kept = autoclusters.get(number)
            if kept is None:
                # not sent yet: the request had no more room for its submitter
                attempt.postponed = True
                continue
            verdict = None
            if kept.request is not None:
                table = tables.get(kept.names)
                verdict = table.get(number) if table is not None else None
            if verdict is None and kept.problem is None:
                if self._spent.get(kept.submitter, 0.0) >= self._allowances.get(kept.submitter, 0.0):
                    attempt.postponed = True
                    continue
                began = time.thread_time()
                verdict = self._evaluate(attempt, number, kept)
                self._charge(kept, time.thread_time() - began)
            if verdict is None:
                if kept.problem is not None:
                    # the slot that gets such a job holds it, with the reason
                    fitting.append((0.0, index, number, None))
            elif verdict.rank is not None:
                if attempt.others and self._outranked(attempt, number, kept, verdict):
                    continue
                fitting.append((verdict.rank, index, number, verdict))
            if len(fitting) >= enough:
                break
        attempt.looked = index + 1

    def _unsure(self, attempt: _Attempt, ids: Sequence[int]) -> list[int] | None:
        """Return the evaluated autoclusters whose verdicts may not be remembered; None if no verdict may."""
        slot = attempt.slot
        if slot.view.ranks or not slot.lasts(frozenset()):
            return None
        autoclusters = self._autoclusters
        unsure: list[int] = []
        for number in ids[: attempt.looked]:
            kept = autoclusters.get(number)
            if (
                kept is None
                or kept.request is None
                # it was not evaluated, or failed
                or number not in slot.tables.get(kept.names, ())
                # its Rank may leave it to other slots
                or kept.request.rank is not None
                or not slot.lasts(kept.names)
            ):
                unsure.append(number)
        return unsure

    def _charge(self, kept: _Kept, seconds: float) -> None:
        self._spent[kept.submitter] = self._spent.get(kept.submitter, 0.0) + seconds

    def _evaluate(self, attempt: _Attempt, number: int, kept: _Kept) -> Verdict | None:
        """Return the verdict on an autocluster on the slot; None if that fails, or its ad can't be read."""
        if kept.request is None:
            self._at.begin(mark.AUTOCLUSTER, number)
            try:
                kept.request = request_of(kept.text, kept.owner)
            except Exception as error:
                kept.problem = sentence(error)
                self._prove(number)
                return None
            if (names := kept.request.names) is not None:
                kept.names = self._names.setdefault(names, names)
        self._at.begin(mark.MATCH, number)
        try:
            table = self._verdicts.table(attempt.slot, kept.names)
            return table.get(number) or self._verdicts.put(attempt.slot, table, number, kept.request)
        except Exception as error:
            attempt.failed.append((number, sentence(error)))
            return None
        finally:
            self._prove(number)

    def _prove(self, number: int) -> None:
        """Note that an autocluster was evaluated to the end."""
        if number not in self._tried:
            self._tried.add(number)
            self._told.append(number)

    def _outranked(self, attempt: _Attempt, number: int, kept: _Kept, verdict: Verdict) -> bool:
        """Whether the job is left to another slot, or its Rank can't be evaluated."""
        if kept.request is None or kept.request.rank is None:
            return False
        self._at.begin(mark.MATCH, number)
        began = time.thread_time()
        try:
            yields = outranked(number, kept.request, attempt.slot, verdict, attempt.others, self._verdicts)
            attempt.yielded |= yields
            return yields
        except Exception as error:
            attempt.failed.append((number, sentence(error)))
            return True
        finally:
            self._charge(kept, time.thread_time() - began)

    def _weighed(self, attempt: _Attempt) -> list[tuple[int, float]]:
        weighed: list[tuple[int, float]] = []
        for _, index, number, verdict in attempt.fitting:
            weight = 1.0
            kept = self._autoclusters[number]
            if verdict is not None and kept.request is not None:
                if verdict.weight is None:
                    self._at.begin(mark.MATCH, number)
                try:
                    weight = attempt.slot.weight(verdict, kept.request)
                except Exception as error:
                    attempt.failed.append((number, sentence(error)))
                    continue
            weighed.append((index, weight))
        return weighed

    def _evict(self) -> list[int]:
        """Forget the oldest autoclusters until the rest is within ``KEPT_BYTES``; return their ids."""
        evicted = []
        while self._bytes > KEPT_BYTES:
            number, kept = self._autoclusters.popitem(last=False)
            self._bytes -= len(kept.text)
            evicted.append(number)
        return evicted


def request_of(text: bytes, owner: str) -> JobRequest:
    """Return an autocluster's request; raises any error that Python or HTCondor raises for its text."""
    if len(text) > AD_BYTES:
        raise ClassAdError(f"ad of {len(text)} bytes is larger than {AD_BYTES}")
    ad = from_json(json.loads(text))
    check_cost(ad)
    as_offered(ad, owner)
    return JobRequest.of(ad)
