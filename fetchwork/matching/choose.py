"""Which kinds of jobs a slot may get, and in which order.

The database says what waits (``candidates``); here the ads of those autoclusters, read once and kept, are put
against the slot's ad, and what remains is ordered as HTCondor's negotiator would:

1. the slot's own ``Rank``, where it defines one;
2. the keyword's queues, in the order of the host file;
3. the submitter that has least of what it should have: slots in use times effective priority, so that the
   running jobs of two submitters stand in the inverse ratio of their effective priorities;
4. JobPrio, among the jobs of one submitter;
5. age: the autocluster whose last job was taken furthest ahead in the queue comes last.

Everything remembered here is bounded, and may be forgotten at any time.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd, ExprTree, evaluate, format_expr
from fetchwork.errors import ClassAdError
from fetchwork.matching.fit import JobRequest, SlotView

#: autoclusters that are kept; a parsed ad of one is a few kilobytes
MAX_KINDS = 10_000
#: (autocluster, priority) pairs of which the last position is kept
MAX_POSITIONS = 20_000
#: how long a claimer trusts its hints: a row that committed late below one is found after that
HINT_LIFE_S = 10.0

#: evaluations that one attribute may cost: HTCondor evaluates a reference anew wherever it stands
MAX_EVALUATIONS = 100_000
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*')

# what HTCondor puts into a fetched ad that does not ask for them
_USER = parse_expr('strcat(MY.Owner, "@", TARGET.UidDomain)')
REQUEST_DEFAULTS = {"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1}


@dataclass(frozen=True, slots=True)
class Autocluster:
    """An autocluster: ``ad`` is what matching looks at, or ``problem`` says why it can't be read."""

    autocluster_id: int
    submitter: str
    owner: str
    queue: str
    ad: ClassAd
    #: what it asks of a slot; None if the ad can't be read
    wants: JobRequest | None = None
    problem: str | None = None


def as_offered(ad: ClassAd, owner: str) -> None:
    """Add to an autocluster's ad what the fetched ad will have, too: a slot's START may look at it."""
    for name, value in REQUEST_DEFAULTS.items():
        ad.setdefault(name, value)
    ad.setdefault("JobUniverse", 5)
    ad.setdefault("Owner", owner)
    ad["OsUser"] = owner
    ad["User"] = _USER


class Autoclusters:
    """The autoclusters this process has read; they never change."""

    def __init__(self, limit: int = MAX_KINDS) -> None:
        self._kinds: OrderedDict[int, Autocluster] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._kinds)

    def missing(self, ids: Iterable[int]) -> list[int]:
        """Those of ``ids`` whose ads have to be fetched."""
        return sorted({number for number in ids if number not in self._kinds})

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep rows of ``fetchwork.autocluster_ads``."""
        for row in rows:
            problem = None
            try:
                ad = from_json(row["ad"])
                check_cost(ad)
            except ClassAdError as error:
                ad, problem = ClassAd(), str(error)
            as_offered(ad, row["owner"])
            wants = JobRequest.of(ad) if problem is None else None
            self._kinds[row["autocluster_id"]] = Autocluster(
                row["autocluster_id"], row["submitter"], row["owner"], row["queue"], ad, wants, problem
            )

    def get(self, autocluster_id: int) -> Autocluster | None:
        """The kind, which counts as a use of it."""
        kind = self._kinds.get(autocluster_id)
        if kind is not None:
            self._kinds.move_to_end(autocluster_id)
        return kind

    def trim(self) -> None:
        """Forget what was not used for longest, down to the limit; called when nobody holds a list of ids."""
        while len(self._kinds) > self._limit:
            self._kinds.popitem(last=False)


class Positions:
    """Where in the queue of each (autocluster, priority) this process took its last job."""

    def __init__(self, limit: int = MAX_POSITIONS) -> None:
        self._last: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._hints: dict[tuple[int, int], int] = {}
        self._forget_at = 0.0
        self._limit = limit

    def hint(self, autocluster_id: int, prio: int) -> int:
        """Where a claim may begin to look: 0 from the start."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._hints.clear()
            self._forget_at = now + HINT_LIFE_S
        return self._hints.get((autocluster_id, prio), 0)

    def last(self, autocluster_id: int, prio: int) -> int:
        """The last position taken, 0 if none is known: what its next job's age is judged by."""
        return self._last.get((autocluster_id, prio), 0)

    def took(self, autocluster_id: int, prio: int, position: int) -> None:
        """A claim took the job at ``position``."""
        key = (autocluster_id, prio)
        self._hints[key] = max(position, self._hints.get(key, 0))
        self._last[key] = position
        self._last.move_to_end(key)
        while len(self._last) > self._limit:
            self._hints.pop(self._last.popitem(last=False)[0], None)

    def found_nothing(self, autocluster_id: int, prio: int) -> None:
        """A claim that began at the hint found nothing: the next one looks from the start."""
        self._hints.pop((autocluster_id, prio), None)


#: of a submitter that nobody knows (HTCondor's DEFAULT_PRIO_FACTOR)
DEFAULT_FACTOR = 1000.0


@dataclass(slots=True)
class Shares:
    """Each submitter's effective priority and slots in use, and what this host added since it asked.

    Who needs a slot most is told by the sum of what a submitter used and what it uses, times its factor.
    Real priority is used slots, decayed, so both are counted in slots, and endless jobs of all settle where
    the shares are inverse to the factors. The product of the two, which is how HTCondor's negotiator cuts its
    pie, settles at the inverse of the factors' square roots (tests/benchmarks/bench_fairness.py). The slots
    in use keep a newcomer from getting all that is free until its usage shows.
    """

    effective_prio: dict[str, float] = field(default_factory=dict)
    in_use: dict[str, float] = field(default_factory=dict)
    factor: dict[str, float] = field(default_factory=dict)
    asked_at: float = float("-inf")

    def update(self, rows: Iterable[Mapping[str, Any]], now: float) -> None:
        """Take rows of ``fetchwork.shares``."""
        self.effective_prio, self.in_use, self.factor = {}, {}, {}
        for row in rows:
            self.factor[row["submitter"]] = row["prio_factor"]
            self.effective_prio[row["submitter"]] = row["effective_prio"]
            self.in_use[row["submitter"]] = row["running"]
        self.asked_at = now

    def claimed(self, submitter: str, slots: float = 1.0) -> None:
        """A job of ``submitter`` was claimed (or with ``slots`` -1 given back) here since then."""
        self.in_use[submitter] = max(0.0, self.in_use.get(submitter, 0.0) + slots)

    def need(self, submitter: str) -> float:
        """The submitter with the lowest gets the next slot."""
        factor = self.factor.get(submitter, DEFAULT_FACTOR)
        # nobody's real priority is below a half
        used = self.effective_prio.get(submitter, 0.5 * factor)
        return used + factor * (self.in_use.get(submitter, 0.0) + 1.0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One autocluster and priority that a slot may be given."""

    kind: Autocluster
    prio: int
    limited: bool


def check_cost(ad: ClassAd) -> None:
    """Refuse an ad that would keep its reader busy: ``a = b + b``, ``b = c + c``, ... doubles each step."""
    words: dict[str, list[str]] = {}
    for name in ad:
        if isinstance(ad[name], ExprTree | list | ClassAd):
            found = _WORD.findall(format_expr(ad.lookup(name)).lower())
            words[name.lower()] = [word for word in found if word[0] != '"']
    costs: dict[str, int] = {}

    def cost(name: str, above: frozenset[str]) -> int:
        # a circle ends as an error when HTCondor comes round
        if name not in words or name in above:
            return 1
        if name not in costs:
            costs[name] = min(
                MAX_EVALUATIONS + 1, sum(cost(word, above | {name}) for word in words[name]) + 1
            )
        return costs[name]

    for name in words:
        try:
            expensive = cost(name, frozenset()) > MAX_EVALUATIONS
        except RecursionError:
            expensive = True
        if expensive:
            raise ClassAdError(
                f"attribute '{name}' takes more than {MAX_EVALUATIONS} evaluations; "
                "allowed: fewer references to attributes that refer to others"
            )


def slot_resources(slot: ClassAd) -> dict[str, float | None]:
    """What is left of a slot, as ``candidates`` wants it; None where the ad does not tell."""
    resources: dict[str, float | None] = {}
    for parameter, name in (
        ("cpus", "Cpus"),
        ("memory_mib", "Memory"),
        ("disk_kib", "Disk"),
        ("gpus", "GPUs"),
    ):
        value = evaluate(slot, name)
        resources[parameter] = float(value) if type(value) in (int, float) else None
    if resources["gpus"] is None:
        # a machine without GPUs does not mention them
        resources["gpus"] = 0.0
    return resources


def choose(
    candidates: Iterable[Mapping[str, Any]],
    offer: SlotView,
    *,
    kinds: Autoclusters,
    positions: Positions,
    shares: Shares,
    queues: Sequence[str],
) -> Iterator[Choice]:
    """Those candidates that may run on the slot, the one to offer first at the front.

    They are put against the slot as they are asked for, because the first one is mostly taken; only a slot
    that ranks jobs has to be put against all. An autocluster whose ad can't be read fits every slot: whoever
    gets such a job holds it, with the reason.
    """
    queue_order = {queue: number for number, queue in enumerate(queues)}
    needs: dict[str, float] = {}
    ordered: list[tuple[tuple[Any, ...], Choice]] = []
    for row in candidates:
        number, prio = row["autocluster_id"], row["job_prio"]
        kind = kinds.get(number)
        if kind is None:
            continue
        if kind.submitter not in needs:
            needs[kind.submitter] = shares.need(kind.submitter)
        key = (
            queue_order.get(kind.queue, len(queue_order)),
            needs[kind.submitter],
            kind.submitter,
            -prio,
            positions.last(number, prio),
            number,
        )
        ordered.append((key, Choice(kind, prio, row["limited"])))
    ordered.sort(key=lambda pair: pair[0])
    choices = [choice for _, choice in ordered]
    if not offer.ranks:
        return (choice for choice in choices if _rank_if_fits(offer, choice.kind) is not None)
    ranks = [_rank_if_fits(offer, choice.kind) for choice in choices]
    best = [(rank, choice) for rank, choice in zip(ranks, choices, strict=True) if rank is not None]
    # the sort keeps the order of what ranks the same
    best.sort(key=lambda pair: -pair[0])
    return iter([choice for _, choice in best])


def _rank_if_fits(offer: SlotView, kind: Autocluster) -> float | None:
    if kind.wants is None:
        return 0.0
    return offer.rank_if_fits(kind.autocluster_id, kind.wants)


def slot_weights(slot: ClassAd, requests: Iterable[ClassAd]) -> list[float]:
    """What a second of the slot costs: its ``SlotWeight``; of a partitionable one for what each job takes."""
    if "SlotWeight" not in slot:
        return [1.0 for _ in requests]
    if slot.get("SlotType") != "Partitionable":
        weight = _weight(slot)
        return [weight for _ in requests]
    carved = ClassAd()
    carved.update({name: slot.lookup(name) for name in slot})
    weights = []
    for request in requests:
        for resource in ("Cpus", "Memory", "Disk"):
            asked = evaluate(request, f"Request{resource}", slot)
            if type(asked) in (int, float):
                carved[resource] = asked
            elif resource in slot:
                carved[resource] = slot.lookup(resource)
        weights.append(_weight(carved))
    return weights


def _weight(slot: ClassAd) -> float:
    weight = evaluate(slot, "SlotWeight")
    return float(weight) if type(weight) in (int, float) and weight > 0 else 1.0
