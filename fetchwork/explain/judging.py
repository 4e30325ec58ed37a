"""Judges a job by the known slots: figures by verdict, by clause of its Requirements, by resource."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fetchwork.classad import clauses
from fetchwork.classad.cost import check_cost
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import (
    ERROR,
    UNDEFINED,
    ClassAd,
    ExprTree,
    evaluate,
    format_expr,
    references,
    truth,
)
from fetchwork.db.calls.call import JsonObject, Record
from fetchwork.errors import ClassAdError
from fetchwork.matching.autoclusters import as_offered
from fetchwork.matching.fit import JobRequest, SlotView

#: the number of slots named as examples
EXAMPLES = 3

#: seconds without a fetch after which a free slot is not expected to ask soon
QUIET_S = 900.0

#: the verdicts on a slot; the first that applies counts
VERDICTS = {
    "other_queue": "drawing from other queues",
    "silent": "of hosts whose agent is silent",
    "resources": "with too little of what the job asks",
    "job_refuses": "rejected by the job's Requirements",
    "slot_refuses": "rejecting the job by their START or Requirements",
    "resting": "that refused jobs of this autocluster, and are not offered any for a while",
    "black_hole": "of hosts on which jobs failed in a row, offered one now and then",
    "busy": "matching, but busy",
    "quiet": "matching, but have not asked for a quarter of an hour: HTCondor is stopped, or START false",
    "free": "matching and free",
}


@dataclass(frozen=True, slots=True)
class KnownSlot(Record):
    """A slot that has asked for work, its host, and its backoff from the job's autocluster."""

    name: str
    machine: str
    state: str | None
    activity: str | None
    slot_type: str | None
    run_id: int | None
    #: None: all queues
    queues: list[str] | None
    ad: JsonObject
    alive: bool
    black_hole: bool
    bad_reason: str | None
    refusals: int | None
    rest_until: float | None
    asked_s_ago: float | None

    @property
    def is_free(self) -> bool:
        """Whether a job could start on it now; a partitionable slot must also have enough resources left."""
        if self.slot_type == "Partitionable":
            return self.state in ("Unclaimed", "Owner")
        return self.run_id is None and (
            self.state in ("Unclaimed", "Owner") or (self.state == "Claimed" and self.activity == "Idle")
        )

    @property
    def occupation(self) -> str:
        """The verdict on a slot that has enough left for the job."""
        if not self.is_free:
            return "busy"
        return "quiet" if (self.asked_s_ago or 0.0) > QUIET_S else "free"


@dataclass(slots=True)
class Clause:
    """One conjunct of Requirements, with the numbers of slots on which it is true, false, ..."""

    text: str
    true: int = 0
    false: int = 0
    undefined: int = 0
    error: int = 0
    #: attributes that the clause refers to and that no ad has
    unknown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Refusal:
    """A reason that several slots share."""

    text: str
    slots: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.slots += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(name)


@dataclass(slots=True)
class Judged:
    """The result: figures by slots, the clauses of Requirements, and the slots' refusals."""

    #: slots that were judged
    slots: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)


def request_of(ad: JsonObject, owner: str) -> JobRequest:
    """A job's request to a slot; raises ClassAdError."""
    job = from_json(ad)
    check_cost(job)
    as_offered(job, owner)
    return JobRequest.of(job)


def judge(
    request: JobRequest, queue: str, slots: Iterable[KnownSlot], begin: Callable[[], None] = lambda: None
) -> Judged:
    """Judge the job by each slot; ``begin`` is called before each."""
    judged = Judged()
    verdicts: Counter[str] = Counter()
    resources: Counter[str] = Counter()
    refusals: dict[str, Refusal] = {}
    parts = clauses.split(request.requirements) if request.requirements is not None else []
    judged.clauses = [Clause(format_expr(part)) for part in parts]
    unknown = [set(_targets(part, request.ad)) for part in parts]
    now = time.time()
    for slot in slots:
        begin()
        try:
            ad = from_json(slot.ad)
        except ClassAdError:
            continue
        judged.slots += 1
        if slot.queues is not None and queue not in slot.queues:
            verdicts["other_queue"] += 1
            continue
        offer, empty = SlotView(ad), SlotView(_emptied(ad))
        for clause, part, names in zip(judged.clauses, parts, unknown, strict=True):
            _count(clause, evaluate(request.ad, part, empty.ad))
            names.difference_update([name for name in names if name in ad])
        short = empty.shortage(request)
        if not slot.alive:
            verdict = "silent"
        elif short is not None:
            verdict = "resources"
            resources[short] += 1
        elif not empty.job_accepts(request):
            verdict = "job_refuses"
        elif not empty.slot_accepts(request):
            verdict = "slot_refuses"
            for text in _why_slot_refuses(empty.ad, request.ad):
                refusals.setdefault(text, Refusal(text)).add(slot.name)
        elif slot.rest_until is not None:
            verdict = "resting"
            text = (
                f"refused {slot.refusals} times, backs off for {max(0.0, slot.rest_until - now):.0f} s more"
            )
            refusals.setdefault(text, Refusal(text)).add(slot.name)
        elif slot.black_hole:
            verdict = "black_hole"
            text = f"{slot.machine}: {' '.join((slot.bad_reason or '').split())}"
            refusals.setdefault(text, Refusal(text)).add(slot.name)
        else:
            verdict = slot.occupation if offer.fits(request) else "busy"
        verdicts[verdict] += 1
    # if nothing was evaluated, there is nothing to tell of the clauses
    judged.clauses = judged.clauses if judged.slots > verdicts["other_queue"] else []
    for clause, names in zip(judged.clauses, unknown, strict=False):
        clause.unknown = sorted(names)
    judged.verdicts = {name: verdicts[name] for name in VERDICTS if verdicts[name]}
    judged.resources = dict(resources.most_common())
    judged.refusals = sorted(refusals.values(), key=lambda refusal: (-refusal.slots, refusal.text))
    return judged


def _emptied(ad: ClassAd) -> ClassAd:
    """The ad of a partitionable slot as if no job ran on it; any other slot's ad unchanged."""
    if ad.get("SlotType") != "Partitionable":
        return ad
    empty = ClassAd()
    empty.update({name: ad.lookup(name) for name in ad})
    for resource in str(ad.get("MachineResources", "Cpus Memory Disk")).split():
        if f"TotalSlot{resource}" in ad:
            empty[resource] = ad.lookup(f"TotalSlot{resource}")
    return empty


def _targets(part: ExprTree, job: ClassAd) -> Iterator[str]:
    """The slot attributes that a clause refers to."""
    for name in references(part):
        bare = name.removeprefix("TARGET.").removeprefix("target.")
        if "." not in bare and (bare != name or bare not in job):
            yield bare


def _count(clause: Clause, value: object) -> None:
    known = truth(value)
    if known is not None:
        clause.true += known
        clause.false += not known
    elif value is UNDEFINED:
        clause.undefined += 1
    else:
        clause.error += 1


def _why_slot_refuses(slot: ClassAd, job: ClassAd) -> list[str]:
    """The clauses of a slot's Requirements, with START expanded, that are not true."""
    texts = []
    for top in clauses.split(slot.lookup("Requirements")):
        for part in clauses.explain(slot, top):
            value = evaluate(slot, part, job)
            if truth(value) is not True:
                said = "undefined" if value is UNDEFINED else "error" if value is ERROR else "false"
                name, text = format_expr(top), format_expr(part)
                texts.append(f"{text} is {said}" if name == text else f"{name}: {text} is {said}")
    return texts
