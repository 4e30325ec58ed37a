"""Why a job does not run: what the database says of it, and what the known slots and it make of each other.

Evaluated is what agents evaluate: the autocluster's ad against the slots' ads as they last told them. A
partitionable slot is looked at twice, as it is and as it would be with nothing running on it.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
from fetchwork.codes import JobStatus
from fetchwork.db.database import Database
from fetchwork.errors import ClassAdError, NotFound
from fetchwork.matching.autoclusters import as_offered
from fetchwork.matching.fit import JobRequest, SlotView
from fetchwork.matching.shares import Shares

#: names of slots that are given as examples
EXAMPLES = 3
#: jobs of its own kind before a job are counted up to this (functions/reading/prospects.sql)
MOST_AHEAD = 1000

#: what becomes of a slot; the first that is true counts
VERDICTS = {
    "other_queue": "drawing from other queues",
    "silent": "of hosts whose agent is silent",
    "resources": "with too little of what the job asks",
    "job_refuses": "rejected by the job's Requirements",
    "slot_refuses": "rejecting the job by their START or Requirements",
    "resting": "that refused jobs of this autocluster, and are not offered any for a while",
    "black_hole": "of hosts that fail to run jobs, offered a probe now and then",
    "busy": "matching, but busy",
    "free": "matching and free",
}

_SLOTS = """
SELECT s.name, s.machine, s.state, s.activity, s.slottype, s.runid, s.fetchworkqueues, s.ad,
    h.agent_version IS NULL OR h.alive AS alive, h.black_hole_since_at IS NOT NULL AS black_hole,
    h.bad_reason, r.refusals, extract(epoch FROM r.rest_until_at)::float8 AS rest_until
FROM fetchwork.slots AS s
JOIN fetchwork.hosts AS h ON h.machine = s.machine
LEFT JOIN fetchwork.rests AS r
    ON r.machine = s.machine AND r.name = s.name AND r.autoclusterid = %s AND r.rest_until_at > now()
WHERE s.ad IS NOT NULL AND s.slottype IS DISTINCT FROM 'Dynamic'
ORDER BY s.machine, s.name
"""


@dataclass(slots=True)
class Clause:
    """One part of Requirements, and on how many slots it is what."""

    text: str
    true: int = 0
    false: int = 0
    undefined: int = 0
    error: int = 0
    #: attributes that it refers to and that are in no ad
    unknown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Refusal:
    """A reason that several slots have in common."""

    text: str
    slots: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.slots += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(name)


@dataclass(slots=True)
class Analysis:
    """Why a job does not run; ``reasons`` are sentences, what weighs most first."""

    job: str
    status: int
    owner: str
    submitter: str = ""
    queue: str = ""
    reasons: list[str] = field(default_factory=list)
    #: slots that were looked at; dynamic ones come from a partitionable one and are not
    slots: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    #: submitters whose turn comes before this job's, with their figures
    ahead: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return dataclasses.asdict(self)


def analyze(database: Database, cluster_id: int, proc_id: int) -> Analysis:
    """Look into one job; raises NotFound."""
    rows = database.query(
        "SELECT j.jobstatus, j.owner, j.holdreason, j.remotehost, j.lastreason, a.ad FROM fetchwork.jobs AS j"
        " JOIN fetchwork.autoclusters AS a ON a.autoclusterid = j.autoclusterid"
        " WHERE j.clusterid = %s AND j.procid = %s",
        [cluster_id, proc_id],
    )
    told = database.call("prospects", cluster=cluster_id, proc=proc_id)
    if not rows or not told:
        raise NotFound(f"job '{cluster_id}.{proc_id}' is not in the queue, or not yours to see")
    job, prospects = rows[0], told[0]
    found = Analysis(
        job=f"{cluster_id}.{proc_id}",
        status=job["jobstatus"],
        owner=job["owner"],
        submitter=prospects["submitter"],
        queue=prospects["queue"],
    )
    found.reasons += _standing(job, prospects)
    try:
        request = _request(job["ad"], job["owner"])
    except ClassAdError as error:
        found.reasons.append(f"Its ad can't be read, so the next slot that gets it holds it: {error}.")
        return found
    slots = database.stream(_SLOTS, [prospects["autocluster_id"]])
    _look_at(found, request, slots)
    found.ahead = _ahead(database, found, prospects)
    found.reasons += _matching(found, prospects)
    return found


def _request(ad: Mapping[str, Any], owner: str) -> JobRequest:
    job = from_json(ad)
    check_cost(job)
    as_offered(job, owner)
    return JobRequest.of(job)


# -- what the database knows


def _standing(job: Mapping[str, Any], prospects: Mapping[str, Any]) -> Iterator[str]:
    status = job["jobstatus"]
    if status == JobStatus.HELD:
        yield f"It is held: {_sentence(job['holdreason'])}"
    elif status == JobStatus.REMOVED:
        yield "It has been removed; its run is still ending."
    elif status in (JobStatus.RUNNING, JobStatus.SUSPENDED):
        yield f"It is {'running' if status == JobStatus.RUNNING else 'suspended'} on {job['remotehost']}."
    elif prospects["run_state"] is not None:
        yield f"It has just been offered to {prospects['run_slot']}, which has not started it yet."
    elif prospects["not_before"] is not None:
        wait = max(0.0, prospects["not_before"].timestamp() - time.time())
        why = f" after this: {_sentence(job['lastreason'])}" if job["lastreason"] else "."
        yield f"It is not tried again for {wait:.0f} s{why}"
    elif not prospects["waits"]:
        yield "It is being taken from the queue at this moment."
    if prospects["blocked"]:
        yield f"{_sentence(prospects['blocked'])}"


def _sentence(text: str | None) -> str:
    words = " ".join((text or "").split())
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


# -- what the slots make of it


def _look_at(found: Analysis, request: JobRequest, slots: Iterable[Mapping[str, Any]]) -> None:
    verdicts: Counter[str] = Counter()
    resources: Counter[str] = Counter()
    refusals: dict[str, Refusal] = {}
    parts = clauses.split(request.requirements) if request.requirements is not None else []
    found.clauses = [Clause(format_expr(part)) for part in parts]
    unknown = [set(_targets(part, request.ad)) for part in parts]
    now = time.time()
    for row in slots:
        try:
            ad = from_json(row["ad"])
        except ClassAdError:
            continue
        found.slots += 1
        queues = row["fetchworkqueues"]
        if queues is not None and found.queue not in queues:
            verdicts["other_queue"] += 1
            continue
        offer, empty = SlotView(ad), SlotView(_emptied(ad))
        for clause, part, names in zip(found.clauses, parts, unknown, strict=True):
            _count(clause, evaluate(request.ad, part, empty.ad))
            names.difference_update([name for name in names if name in ad])
        short = empty.shortage(request)
        if not row["alive"]:
            verdict = "silent"
        elif short is not None:
            verdict = "resources"
            resources[short] += 1
        elif not empty.job_accepts(request):
            verdict = "job_refuses"
        elif not empty.slot_accepts(request):
            verdict = "slot_refuses"
            for text in _why_slot_refuses(empty.ad, request.ad):
                refusals.setdefault(text, Refusal(text)).add(row["name"])
        elif row["rest_until"] is not None:
            verdict = "resting"
            text = f"refused {row['refusals']} times, rests {max(0.0, row['rest_until'] - now):.0f} s more"
            refusals.setdefault(text, Refusal(text)).add(row["name"])
        elif row["black_hole"]:
            verdict = "black_hole"
            text = f"{row['machine']}: {' '.join((row['bad_reason'] or '').split())}"
            refusals.setdefault(text, Refusal(text)).add(row["name"])
        else:
            verdict = "free" if _is_free(row) and offer.fits(request) else "busy"
        verdicts[verdict] += 1
    for clause, names in zip(found.clauses, unknown, strict=True):
        clause.unknown = sorted(names) if found.slots else []
    found.verdicts = {name: verdicts[name] for name in VERDICTS if verdicts[name]}
    found.resources = dict(resources.most_common())
    found.refusals = sorted(refusals.values(), key=lambda refusal: (-refusal.slots, refusal.text))


def _emptied(ad: ClassAd) -> ClassAd:
    """A partitionable slot with nothing running on it; any other slot as it is."""
    if ad.get("SlotType") != "Partitionable":
        return ad
    empty = ClassAd()
    empty.update({name: ad.lookup(name) for name in ad})
    for resource in str(ad.get("MachineResources", "Cpus Memory Disk")).split():
        if f"TotalSlot{resource}" in ad:
            empty[resource] = ad.lookup(f"TotalSlot{resource}")
    return empty


def _is_free(row: Mapping[str, Any]) -> bool:
    state, activity = row["state"], row["activity"]
    if row["slottype"] == "Partitionable":
        return state in ("Unclaimed", "Owner")
    return row["runid"] is None and (
        state in ("Unclaimed", "Owner") or (state == "Claimed" and activity == "Idle")
    )


def _targets(part: ExprTree, job: ClassAd) -> Iterator[str]:
    """The attributes that a clause wants of a slot."""
    for name in references(part):
        bare = name.removeprefix("TARGET.").removeprefix("target.")
        if "." not in bare and (bare != name or bare not in job):
            yield bare


def _count(clause: Clause, value: Any) -> None:
    known = truth(value)
    if known is not None:
        clause.true += known
        clause.false += not known
    elif value is UNDEFINED:
        clause.undefined += 1
    else:
        clause.error += 1


def _why_slot_refuses(slot: ClassAd, job: ClassAd) -> list[str]:
    """The clauses of a slot's Requirements, START looked into, that are not true."""
    texts = []
    for top in clauses.split(slot.lookup("Requirements")):
        for part in clauses.explain(slot, top):
            value = evaluate(slot, part, job)
            if truth(value) is not True:
                said = "undefined" if value is UNDEFINED else "error" if value is ERROR else "false"
                name, text = format_expr(top), format_expr(part)
                texts.append(f"{text} is {said}" if name == text else f"{name}: {text} is {said}")
    return texts


# -- who is first


def _ahead(database: Database, found: Analysis, prospects: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Submitters with jobs that could be claimed from the same queue, whose turn comes first."""
    waiting: dict[str, int] = Counter()
    higher = 0
    for row in database.call("waiting_autoclusters", queues=[found.queue]):
        if row["blocked"] is None:
            waiting[row["submitter"]] += 1
            higher += row["submitter"] == found.submitter and row["job_prio"] > prospects["job_prio"]
    rows = database.call("shares")
    shares = Shares()
    shares.update(rows, 0.0)
    own = shares.need(found.submitter)
    ahead = [
        {
            "submitter": row["submitter"],
            "priority": row["effective_prio"],
            "running": row["running"],
            "kinds_waiting": waiting[row["submitter"]],
        }
        for row in rows
        if row["submitter"] != found.submitter
        and waiting.get(row["submitter"])
        and (shares.need(row["submitter"]), row["submitter"]) < (own, found.submitter)
    ]
    ahead.sort(key=lambda one: shares.need(one["submitter"]))
    if higher:
        ahead.insert(0, {"submitter": found.submitter, "kinds_waiting": higher, "why": "JobPrio is higher"})
    return ahead


def _matching(found: Analysis, prospects: Mapping[str, Any]) -> Iterator[str]:
    """What the figures come to."""
    if found.status != JobStatus.IDLE:
        return
    counts = found.verdicts
    could = counts.get("free", 0) + counts.get("busy", 0)
    mine = found.slots - counts.get("other_queue", 0)
    if not found.slots:
        yield "No slot has asked for work yet" + (
            "." if prospects["agents"] else ", and no agent is alive: 'fetchwork doctor' on a host tells why."
        )
    elif not mine:
        yield f'No slot draws from queue "{found.queue}" ({_slots(found.slots)} known).'
    elif counts.get("silent", 0) == mine:
        yield f'No agent of a slot that draws from queue "{found.queue}" is alive ({_slots(mine)}).'
    elif not could:
        worst = max((name for name in counts if name != "other_queue"), key=lambda name: counts[name])
        yield f"No slot can run it now: of {_slots(mine)}, {counts[worst]} {VERDICTS[worst]}."
        yield from _advice(found)
    elif counts.get("free"):
        yield f"{_slots(counts['free'])} can take it: it runs when one asks and its turn has come."
    else:
        yield f"What matches is busy ({_slots(counts['busy'])})."
    if could and prospects["waits"]:
        number = prospects["ahead"]
        if number:
            more = " or more" if number >= MOST_AHEAD else ""
            yield f"Jobs of its autocluster that come before it: {number}{more}."
        if found.ahead:
            yield f"Submitters with waiting jobs whose turn comes before: {len(found.ahead)}."


def _slots(number: int) -> str:
    return f"{number} slot" + "s" * (number != 1)


def _advice(found: Analysis) -> Iterator[str]:
    for clause in found.clauses:
        if not clause.true and clause.unknown:
            names = ", ".join(clause.unknown)
            yield f"No slot has the attribute {names}, which '{clause.text}' looks at."
        elif not clause.true:
            yield f"'{clause.text}' is true on no slot."
    for resource, number in found.resources.items():
        yield f"Too little {resource}: {_slots(number)}."
