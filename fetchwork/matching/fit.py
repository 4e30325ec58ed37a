"""Whether a job may run on a slot: the Requirements of both ads, and what the job asks against what is there.

Requirements are HTCondor's own matchmaking (``matches``; tests/data/matching.txt). The second part
is what condor_submit writes into every job's Requirements, ``TARGET.X >= RequestX`` for each ``RequestX``:
an ad that came by SQL does not have it, and not every slot looks (a static slot of HTCondor 23 looks at
nothing). So it is done here for all. As in condor_submit, Requirements that name X themselves decide where
the slot has no X at all.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

from fetchwork.classad.values import ClassAd, ExprTree, evaluate, format_expr, number, truth
from fetchwork.matching.clocks import is_clock
from fetchwork.matching.dependence import Texts, names_in, only_computes

_REQUEST = "request"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


#: the slot's attributes that count for each job: whether it may run, how it is ranked, what it costs
_ALWAYS = ("requirements", "rank", "slotweight", "slottype", "cpus", "memory", "disk")

#: sorts of slots, by what they look at, of which a job keeps what they look at
_SLOT_SORTS = 8

#: what stands against a job on a slot: too little of a resource, its Requirements, the slot's
Refusal = Literal["resources", "job_refuses", "slot_refuses"]


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a job asks of a slot, taken from its ad once."""

    ad: ClassAd
    requirements: ExprTree | None
    #: resource in lower case, and how much of it
    amounts: tuple[tuple[str, float], ...]
    #: the same where the amount is an expression that looks at the slot
    expressions: tuple[tuple[str, ExprTree], ...]
    #: the words of the job's expressions, among them the resources that they name
    words: frozenset[str]
    #: the job's Rank of slots, None where it is the same for all
    rank: ExprTree | None = None
    #: the attributes of a slot that its own expressions may look at; None where other things count as well
    names: frozenset[str] | None = None
    #: what ``values_of`` found before
    _values: dict[frozenset[str], tuple[tuple[str, str], ...] | None] = field(default_factory=dict)

    def values_of(self, names: frozenset[str]) -> tuple[tuple[str, str], ...] | None:
        """The job's attributes of these names, if all of them are plain values."""
        if names not in self._values:
            if len(self._values) > _SLOT_SORTS:
                self._values.clear()
            self._values[names] = Texts(self.ad).literals(names)
        return self._values[names]

    @classmethod
    def of(cls, ad: ClassAd) -> JobRequest:
        """Read the request from a job's ad, which must not change from then on."""
        amounts: list[tuple[str, float]] = []
        expressions: list[tuple[str, ExprTree]] = []
        words: set[str] = set()
        names: set[str] = set()
        computes = True
        for name in ad:
            key, value = name.lower(), ad[name]
            if isinstance(value, ExprTree | list | ClassAd):
                text = format_expr(ad.lookup(name))
                names |= names_in(text)
                computes = computes and only_computes(text)
                if isinstance(value, ExprTree):
                    words.update(_WORD.findall(text.lower()))
            if key.startswith(_REQUEST) and key != _REQUEST:
                if isinstance(value, ExprTree):
                    expressions.append((key.removeprefix(_REQUEST), value))
                elif (amount := number(value, finite=False)) is not None:
                    amounts.append((key.removeprefix(_REQUEST), amount))
        requirements = ad.lookup("Requirements") if "Requirements" in ad else None
        rank = ad.lookup("Rank") if isinstance(ad.get("Rank"), ExprTree) else None
        names.update(resource for resource, _ in (*amounts, *expressions))
        return cls(
            ad,
            requirements,
            tuple(amounts),
            tuple(expressions),
            frozenset(words),
            rank,
            frozenset(names) if computes else None,
        )


class SlotView:
    """A slot, made ready to be put against many jobs; its ad must not change from then on."""

    def __init__(self, ad: ClassAd) -> None:
        self.ad = ad
        self._requirements = ad.lookup("Requirements") if "Requirements" in ad else None
        self._rank = ad.lookup("Rank") if isinstance(ad.get("Rank"), ExprTree) else None
        self._resources: dict[str, float | None] = {}
        self._texts = Texts(ad)
        self._own_names: frozenset[str] | None = None
        self._shares_opinions = False
        self._opinions: dict[tuple[tuple[str, str], ...], float | None] = {}

    @property
    def ranks(self) -> bool:
        """Whether the slot likes some jobs better than others."""
        return self._rank is not None

    def digest(self, names: frozenset[str]) -> bytes | None:
        """Stands for what of this slot counts for jobs that look at the attributes ``names``.

        On all slots with the same digest such a job has the same verdict, rank and weight. None: other things
        count as well, and nothing is known of another time or slot.
        """
        found = self._texts.reached((*names, *_ALWAYS))
        if found is None:
            return None
        return hashlib.blake2b(repr(sorted(found.items())).encode(), digest_size=16).digest()

    def has_no_clock_in(self, names: frozenset[str]) -> bool:
        """Whether the digest for these ``names`` is one, and depends on nothing that runs by itself."""
        found = self._texts.reached((*names, *_ALWAYS))
        return found is not None and not any(map(is_clock, found))

    def opinion(self, request: JobRequest) -> float | None:
        """The slot's Rank of a job, None where its Requirements are not true.

        It is the same for all jobs in which what the slot looks at has the same plain values.
        """
        if self._own_names is None:
            found = self._texts.reached(("requirements", "rank"))
            self._own_names = frozenset().union(*map(names_in, found.values())) if found else frozenset()
            self._shares_opinions = found is not None
        key = request.values_of(self._own_names) if self._shares_opinions else None
        if key is not None and key in self._opinions:
            return self._opinions[key]
        rank = self.rank(request) if self.slot_accepts(request) else None
        if key is not None:
            self._opinions[key] = rank
        return rank

    def fits(self, request: JobRequest) -> bool:
        """Tell whether the job may run on the slot."""
        return self.refusal(request) is None

    def refusal(self, request: JobRequest) -> Refusal | None:
        """Why the job may not run on the slot; None if it may."""
        if self.shortage(request) is not None:
            return "resources"
        if not self.job_accepts(request):
            return "job_refuses"
        return None if self.slot_accepts(request) else "slot_refuses"

    def job_accepts(self, request: JobRequest) -> bool:
        """Tell whether the job's Requirements are true."""
        return request.requirements is None or _is_true(request.requirements, request.ad, self.ad)

    def slot_accepts(self, request: JobRequest) -> bool:
        """Tell whether the slot's Requirements are true."""
        return self._requirements is None or _is_true(self._requirements, self.ad, request.ad)

    def rank(self, request: JobRequest) -> float:
        """The slot's Rank of the job."""
        return 0.0 if self._rank is None else rank_of(self._rank, self.ad, request.ad)

    def shortage(self, request: JobRequest) -> str | None:
        """The first resource of which the slot has less than the job asks; None if it has enough of all."""
        known = self._resources
        for resource, amount in request.amounts:
            there = known.get(resource)
            if (there is None or not amount <= there) and self._lacks(resource, amount, request):
                return resource
        for resource, expression in request.expressions:
            asked = number(evaluate(request.ad, expression, self.ad), finite=False)
            if asked is not None and self._lacks(resource, asked, request):
                return resource
        return None

    def has(self, resource: str) -> float | None:
        """How much of a resource (in lower case) the slot has; None if its ad does not say."""
        if resource not in self._resources:
            self._resources[resource] = number(evaluate(self.ad, resource), finite=False)
        return self._resources[resource]

    def _lacks(self, resource: str, asked: float, request: JobRequest) -> bool:
        if asked <= 0:
            return False
        there = self.has(resource)
        if there is None:
            # a machine without GPUs does not mention them
            return resource not in self.ad and resource not in request.words
        return asked > there


def rank_of(rank: ExprTree, ad: ClassAd, target: ClassAd) -> float:
    """The value of a Rank; as in HTCondor true is 1, and what is neither number nor boolean is 0."""
    value = evaluate(ad, rank, target)
    return float(value) if isinstance(value, int | float) and truth(value) is not None else 0.0


def _is_true(requirements: ExprTree, ad: ClassAd, target: ClassAd) -> bool:
    value = evaluate(ad, requirements, target)
    return value is True or truth(value) is True
