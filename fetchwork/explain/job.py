"""Why a job does not run: its state in the database, and how it and the known slots judge each other.

The evaluation equals an agent's: the autocluster's ad against the slots' ads as last reported. A
partitionable slot is evaluated twice, as it is and as it would be if empty.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from fetchwork.codes import JobStatus
from fetchwork.db.calls.call import JsonObject
from fetchwork.db.calls.matching import Prospects, SubmitterShare, WaitingAutocluster
from fetchwork.errors import ClassAdError, NotFound
from fetchwork.explain.apart import TooCostly, judge_apart
from fetchwork.explain.judging import VERDICTS, Clause, Refusal
from fetchwork.explain.slot import shares_of
from fetchwork.matching.shares import Shares

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

#: jobs of a job's autocluster that come before it are counted up to this (functions/reading/prospects.sql)
MOST_AHEAD = 1000


@dataclass(frozen=True, slots=True)
class JobState:
    """A job in the database; ``ad`` is its autocluster's."""

    status: int
    owner: str
    hold_reason: str | None
    slot: str | None
    last_reason: str | None
    ad: JsonObject


@dataclass(frozen=True, slots=True)
class Ahead:
    """A submitter whose turn comes before the job's."""

    submitter: str
    #: the submitter's autoclusters with a job that could be claimed from the same queue
    autoclusters_waiting: int
    priority: float | None = None
    running: int | None = None
    #: the reason, if it is not the priority
    why: str | None = None


@dataclass(slots=True)
class Analysis:
    """The reasons that a job does not run; ``reasons`` are sentences, the most important first."""

    job: str
    status: int
    owner: str
    #: further Idle jobs of its autocluster, if this job represents them
    alike: int = 0
    submitter: str = ""
    queue: str = ""
    reasons: list[str] = field(default_factory=list)
    #: slots that were judged; dynamic slots are part of a partitionable one and do not count
    slots: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    #: submitters whose turn comes before this job's submitter, with their figures
    ahead: list[Ahead] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """As ``--json`` prints it."""
        return dataclasses.asdict(self)


def analyze(session: AnySession, cluster_id: int, proc_id: int) -> Analysis:
    """Analyze one job; raises NotFound."""
    found = session.perform("prospects", cluster=cluster_id, proc=proc_id)
    if found is None:
        raise NotFound(f"job '{cluster_id}.{proc_id}' is not in the queue, or not yours to see")
    job, prospects = JobState(**found["job"]), _prospects_of(found["prospects"])
    analysis = Analysis(
        job=f"{cluster_id}.{proc_id}",
        status=job.status,
        owner=job.owner,
        submitter=prospects.submitter,
        queue=prospects.queue,
    )
    analysis.reasons += _standing(job, prospects)
    if found["unsettled"]:
        analysis.reasons.append(
            "No job is offered now: the database has moved to another server or was restored, and waits until"
            " each host has reported its runs (`fetchwork db status`)."
        )
    if prospects.policy_rests:
        analysis.reasons.append(
            "Its policy (periodic_remove, ...) rests: no access point and no host invited with --trusted"
            " evaluates it; run one (`fetchwork access-point`, `fetchwork host invite --trusted`)."
        )
    slots = session.items("known_slots", owner=job.owner, autocluster=prospects.autocluster_id)
    try:
        judged = judge_apart(job.ad, job.owner, analysis.queue, slots)
    except ClassAdError as error:
        analysis.reasons.append(f"Its ad can't be read, so the next slot that gets it holds it: {error}.")
        return analysis
    except TooCostly as error:
        analysis.reasons.append(f"Its ad is too costly to evaluate, so hosts back off and hold it: {error}.")
        return analysis
    analysis.slots, analysis.verdicts, analysis.clauses = judged.slots, judged.verdicts, judged.clauses
    analysis.resources, analysis.refusals = judged.resources, judged.refusals
    analysis.ahead = _ahead(session, analysis, prospects)
    analysis.reasons += _conclusion(analysis, prospects)
    return analysis


def _prospects_of(fields: JsonObject) -> Prospects:
    times = {
        name: fields[name] and datetime.fromisoformat(fields[name]) for name in ("not_before", "starts_at")
    }
    return Prospects(**{**fields, **times})


def analyze_idle(session: AnySession, most: int) -> tuple[list[Analysis], bool]:
    """Analyze one Idle job of each of the ``most`` autoclusters with most jobs; whether there are more."""
    found = session.perform("first_idle", at_most=most + 1)
    analyses = []
    for first in found[:most]:
        try:
            analysis = analyze(session, first["cluster_id"], first["proc_id"])
        except NotFound:
            # the job has left the queue meanwhile
            continue
        analysis.alike = first["idle"] - 1
        analyses.append(analysis)
    return analyses, len(found) > most


def _standing(job: JobState, prospects: Prospects) -> Iterator[str]:
    """The job's state in the database, as sentences."""
    if job.status == JobStatus.HELD:
        # a person's own words may be a path or a name
        yield f"It is held: {_ended(job.hold_reason)}"
    elif job.status == JobStatus.REMOVED:
        yield "It has been removed; its run is still ending."
    elif job.status == JobStatus.COMPLETED:
        yield "It has ended, and its leave_in_queue keeps it in the queue."
    elif job.status == JobStatus.TRANSFERRING_OUTPUT:
        yield "It has ended, and its access point has yet to deliver its output files."
    elif job.status in (JobStatus.RUNNING, JobStatus.SUSPENDED):
        yield f"It is {'running' if job.status == JobStatus.RUNNING else 'suspended'} on {job.slot}."
    elif prospects.run_state is not None:
        yield f"It has just been offered to {prospects.run_slot}, which has not started it yet."
    elif prospects.starts_at is not None and prospects.not_before is not None:
        wait = max(0.0, prospects.not_before.timestamp() - time.time())
        yield f"It is to start at {prospects.starts_at:%Y-%m-%d %H:%M:%S %Z}, and is offered in {wait:.0f} s."
    elif prospects.not_before is not None:
        wait = max(0.0, prospects.not_before.timestamp() - time.time())
        why = f" after this: {_sentence(job.last_reason)}" if job.last_reason else "."
        yield f"It is not tried again for {wait:.0f} s{why}"
    elif not prospects.waits:
        yield "It is being taken from the queue at this moment."
    if prospects.blocked:
        yield _sentence(prospects.blocked)


def _sentence(text: str | None) -> str:
    words = _ended(text)
    return words[:1].upper() + words[1:]


def _ended(text: str | None) -> str:
    """The text in one line, with a full stop."""
    words = " ".join((text or "").split())
    return words + ("" if words.endswith((".", "!", "?")) else ".")


def _ahead(session: AnySession, analysis: Analysis, prospects: Prospects) -> list[Ahead]:
    """Submitters with jobs that could be claimed from the same queue and whose turn comes first."""
    own = analysis.submitter
    waiting: Counter[str] = Counter()
    higher = 0
    found = session.perform("waiting", queues=[analysis.queue])
    for autocluster in (WaitingAutocluster(**one) for one in found["autoclusters"]):
        if autocluster.blocked is None:
            waiting[autocluster.submitter] += 1
            higher += autocluster.submitter == own and autocluster.job_prio > prospects.job_prio
    submitters = [SubmitterShare(**one) for one in found["shares"]]
    shares = shares_of(found)
    turn = (shares.turn(own), own)
    ahead = [
        Ahead(
            each.submitter,
            waiting[each.submitter],
            each.effective_prio,
            each.running,
            why=None if shares.turn(each.submitter)[:2] == turn[0][:2] else _of_group(shares, each.submitter),
        )
        for each in submitters
        if each.submitter != own
        and waiting[each.submitter]
        and (shares.turn(each.submitter), each.submitter) < turn
    ]
    ahead.sort(key=lambda each: shares.turn(each.submitter))
    if higher:
        ahead.insert(0, Ahead(own, higher, why="JobPrio is higher"))
    return ahead


def _of_group(shares: Shares, submitter: str) -> str:
    group = shares.group_of(submitter)
    in_use, due = shares.dues.figures(group) if shares.dues is not None else (0.0, 0.0)
    return f"group {group} has {in_use:g} of the {due:g} slots that are due to it"


def _conclusion(analysis: Analysis, prospects: Prospects) -> Iterator[str]:
    """The slots' verdicts, as sentences."""
    if analysis.status != JobStatus.IDLE:
        return
    counts = analysis.verdicts
    could = counts.get("free", 0) + counts.get("busy", 0)
    mine = analysis.slots - counts.get("other_queue", 0)
    if not analysis.slots:
        yield "No slot has asked for work yet" + (
            "."
            if prospects.agents
            else ", and no agent is alive: run 'fetchwork doctor' on a host to see why."
        )
    elif not mine:
        yield f'No slot draws from queue "{analysis.queue}" ({_slots(analysis.slots)} known).'
    elif counts.get("silent", 0) == mine:
        yield f'No agent of a slot that draws from queue "{analysis.queue}" is alive ({_slots(mine)}).'
    elif not could:
        worst = max((name for name in counts if name != "other_queue"), key=lambda name: counts[name])
        yield f"No slot can run it now: of {_slots(mine)}, {counts[worst]} {VERDICTS[worst]}."
        yield from _advice(analysis)
    elif counts.get("free"):
        yield f"{_slots(counts['free'])} can take it: it runs when one asks and its turn has come."
    else:
        yield f"Every matching slot is busy ({_slots(counts['busy'])})."
    if could and prospects.waits:
        number = prospects.ahead
        if number:
            more = " or more" if number >= MOST_AHEAD else ""
            yield f"Jobs of its autocluster that come before it: {number}{more}."
        if analysis.ahead:
            yield f"Submitters with waiting jobs whose turn comes before: {len(analysis.ahead)}."


def _slots(number: int) -> str:
    return f"{number} slot" + "s" * (number != 1)


def _advice(analysis: Analysis) -> Iterator[str]:
    for clause in analysis.clauses:
        if not clause.true and clause.unknown:
            names = ", ".join(clause.unknown)
            yield f"No slot has the attribute {names}, which '{clause.text}' refers to."
        elif not clause.true:
            yield f"'{clause.text}' is true on no slot."
    for resource, number in analysis.resources.items():
        yield f"Too little {resource}: {_slots(number)}."
