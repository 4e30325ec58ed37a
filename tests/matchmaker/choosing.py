"""Choosing in this process: the order of matching, and a worker within this process that evaluates."""

from collections.abc import Iterable, Sequence

from fetchwork.classad.ads import print_old
from fetchwork.classad.values import ClassAd
from fetchwork.matching.autoclusters import Autoclusters
from fetchwork.matching.choose import CandidateRow, Choice, order
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares
from fetchwork.matchmaker.looking import Looking
from fetchwork.matchmaker.mark import Mark
from fetchwork.matchmaker.matchform import MatchRequest, SentAd, SentLook


class NoMark(Mark):
    """Arms no timer: it would end the tests."""

    def begin(self, kind: bytes, number: int) -> None:
        """Begin an item."""

    def end(self) -> None:
        """End it."""


def put_against(
    looking: Looking, known: set[int], choices: Sequence[Choice], slot: str, number: int, limit: int
) -> list[Choice]:
    """The choices that fit a slot; ``known`` are the autoclusters that were evaluated before."""
    autoclusters = {choice.autocluster.autocluster_id: choice.autocluster for choice in choices}
    answer = looking.match(
        MatchRequest(
            ads=[
                SentAd(one.autocluster_id, one.submitter, one.owner, one.text.encode())
                for one in autoclusters.values()
                if one.autocluster_id not in known
            ],
            slots={number: slot},
            old_slots=[number - 1],
            allowances={one.submitter: 1000.0 for one in autoclusters.values()},
            ids=[[choice.autocluster.autocluster_id for choice in choices]],
            looks=[SentLook(number, [], limit, 0)],
        )
    )
    known.update(autoclusters)
    return [choices[index] for index, _ in answer["looks"][0]["fit"]]


def choose(
    candidates: Iterable[CandidateRow],
    slot: ClassAd,
    *,
    autoclusters: Autoclusters,
    positions: Positions,
    shares: Shares,
    queues: Sequence[str],
) -> list[Choice]:
    """The candidates that fit a slot, the first to be offered at the front."""
    ordered = order(candidates, autoclusters=autoclusters, positions=positions, shares=shares, queues=queues)
    return put_against(Looking(NoMark()), set(), ordered, print_old(slot), 1, len(ordered))
