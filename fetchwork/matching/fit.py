"""Whether a job may run on a slot: the Requirements of both ads, and the job's requests for resources.

Requirements are HTCondor's own matchmaking (``matches``; tests/data/matching.txt). condor_submit also writes
a clause ``TARGET.X >= RequestX`` for each ``RequestX`` into every job's Requirements. An ad submitted by SQL
lacks these clauses, and not every slot checks the requests (a static slot of HTCondor 23 checks nothing), so
this module compares the requests for all jobs. As in condor_submit, if the slot has no X and the job's
Requirements name X, the Requirements alone decide.
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


#: the slot's attributes that count for each job: they decide whether it may run, its rank and its cost
_ALWAYS = ("requirements", "rank", "slotweight", "slottype", "cpus", "memory", "disk")

#: sets of attribute names, one for each sort of slot, for which a job keeps its values
_SLOT_SORTS = 8

#: the obstacle to a job on a slot: too little of a resource, the job's Requirements, the slot's Requirements
Refusal = Literal["resources", "job_refuses", "slot_refuses"]


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job's requests of a slot, read from its ad once."""

    ad: ClassAd
    requirements: ExprTree | None
    #: (resource in lower case, amount)
    amounts: tuple[tuple[str, float], ...]
    #: (resource in lower case, expression for the amount, which may refer to the slot)
    expressions: tuple[tuple[str, ExprTree], ...]
    #: all words in the job's expressions, including the resources that they name
    words: frozenset[str]
    #: the job's Rank of slots, None where it is the same for all
    rank: ExprTree | None = None
    #: the slot attributes that the job's expressions may refer to; None if their values depend on anything
    #: else
    names: frozenset[str] | None = None
    #: earlier results of ``values_of``
    _values: dict[frozenset[str], tuple[tuple[str, str], ...] | None] = field(default_factory=dict)

    def values_of(self, names: frozenset[str]) -> tuple[tuple[str, str], ...] | None:
        """Return the job's attributes of these names; None if one of them is an expression."""
        if names not in self._values:
            if len(self._values) > _SLOT_SORTS:
                self._values.clear()
            self._values[names] = Texts(self.ad).literals(names)
        return self._values[names]

    @classmethod
    def of(cls, ad: ClassAd) -> JobRequest:
        """Read the request from a job's ad. The ad must not change afterwards."""
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
    """A slot prepared for evaluation against many jobs. Its ad must not change afterwards."""

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
        """Whether the slot has a Rank expression, and so prefers some jobs."""
        return self._rank is not None

    def digest(self, names: frozenset[str]) -> bytes | None:
        """Return a hash of everything in this slot that matters for jobs that refer to these attributes.

        Such a job has the same verdict, rank and weight on all slots with the same digest. None means that
        other things matter too; then a verdict says nothing about another time or slot.
        """
        texts = self._texts.reached((*names, *_ALWAYS))
        if texts is None:
            return None
        return hashlib.blake2b(repr(sorted(texts.items())).encode(), digest_size=16).digest()

    def has_no_clock_in(self, names: frozenset[str]) -> bool:
        """Whether these ``names`` have a digest, and it depends on no attribute that changes by itself."""
        texts = self._texts.reached((*names, *_ALWAYS))
        return texts is not None and not any(map(is_clock, texts))

    def opinion(self, request: JobRequest) -> float | None:
        """Return the slot's Rank of a job; None if the slot's Requirements are not true.

        Jobs with the same plain values of the attributes that the slot refers to share one opinion.
        """
        if self._own_names is None:
            texts = self._texts.reached(("requirements", "rank"))
            self._own_names = frozenset().union(*map(names_in, texts.values())) if texts else frozenset()
            self._shares_opinions = texts is not None
        key = request.values_of(self._own_names) if self._shares_opinions else None
        if key is not None and key in self._opinions:
            return self._opinions[key]
        rank = self.rank(request) if self.slot_accepts(request) else None
        if key is not None:
            self._opinions[key] = rank
        return rank

    def fits(self, request: JobRequest) -> bool:
        """Whether the job may run on the slot."""
        return self.refusal(request) is None

    def refusal(self, request: JobRequest) -> Refusal | None:
        """Return the reason why the job may not run on the slot; None if it may."""
        if self.shortage(request) is not None:
            return "resources"
        if not self.job_accepts(request):
            return "job_refuses"
        return None if self.slot_accepts(request) else "slot_refuses"

    def job_accepts(self, request: JobRequest) -> bool:
        """Whether the job's Requirements are true."""
        return request.requirements is None or _is_true(request.requirements, request.ad, self.ad)

    def slot_accepts(self, request: JobRequest) -> bool:
        """Whether the slot's Requirements are true."""
        return self._requirements is None or _is_true(self._requirements, self.ad, request.ad)

    def rank(self, request: JobRequest) -> float:
        """Return the slot's Rank of the job."""
        return 0.0 if self._rank is None else rank_of(self._rank, self.ad, request.ad)

    def shortage(self, request: JobRequest) -> str | None:
        """Return the first resource of which the slot has too little for the job; None if none is short."""
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
        """Return the slot's amount of a resource (name in lower case); None if its ad does not give one."""
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
    """Return the value of a Rank; as in HTCondor, true is 1, and a value other than number or boolean 0."""
    value = evaluate(ad, rank, target)
    return float(value) if isinstance(value, int | float) and truth(value) is not None else 0.0


def _is_true(requirements: ExprTree, ad: ClassAd, target: ClassAd) -> bool:
    value = evaluate(ad, requirements, target)
    return value is True or truth(value) is True
