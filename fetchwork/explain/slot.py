"""The jobs that a slot would get if it asked now, in order, with the figures that decide the order.

An agent does the same at FETCH_WORK (``matching.choose``), with two differences: here the age of waiting jobs
is read from the queue and not remembered, and no job is claimed. Autoclusters whose ads the caller can't see
can't be evaluated; they are counted only.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.classad.ads import print_old
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.calls.call import JsonObject
from fetchwork.db.calls.matching import AutoclusterAd, GroupFigures, SubmitterShare, WaitingAutocluster
from fetchwork.errors import NotFound
from fetchwork.matching.autoclusters import Autocluster, Autoclusters
from fetchwork.matching.choose import order
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares
from fetchwork.matching.slotstate import why_not
from fetchwork.matchmaker.client import Matchmaker
from fetchwork.matchmaker.messages import Explanation

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

#: reasons that a waiting autocluster is not for this slot; the first that applies counts
REASONS = {
    "blocked": "kept by a limit or a paused queue",
    "resting": "refused by this slot a while ago",
    "resources": "asking for more than the slot has",
    "job_refuses": "rejecting the slot by their Requirements",
    "slot_refuses": "rejected by the slot's START or Requirements",
    "costly": "too costly to evaluate",
    "unseen": "not yours to see",
}


@dataclass(frozen=True, slots=True)
class AskedSlot:
    """A slot as last reported, and its host."""

    name: str
    machine: str
    state: str | None
    activity: str | None
    slot_type: str | None
    #: None: all queues
    queues: list[str] | None
    job: str | None
    ad: JsonObject | None
    asked_s_ago: float
    alive: bool
    black_hole: bool
    bad_reason: str | None


@dataclass(slots=True)
class Candidate:
    """An autocluster, at one JobPrio, whose jobs the slot would be offered."""

    autocluster_id: int
    job: str | None
    submitter: str
    queue: str
    job_prio: int
    #: the slot's Rank for it
    slot_rank: float
    #: effective priority + factor x (slots in use + 1): the lowest is next
    share: float
    #: its submitter's accounting group, if groups have quotas, and the order of that: the lowest is next
    group: str | None = None
    group_order: tuple[int, float] = (0, 0.0)
    #: the figure that places it behind the candidate before it
    decided_by: str = ""


@dataclass(slots=True)
class SlotMatch:
    """The jobs that a slot would get; ``reasons`` are sentences that say why it gets none, or none now."""

    slot: str
    state: str
    activity: str
    queues: list[str]
    reasons: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    #: autoclusters of its queues that wait but are not for it, by reason
    passed_over: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """As ``--json`` prints it."""
        return dataclasses.asdict(self)


def match(session: AnySession, slot: str) -> SlotMatch:
    """The jobs that ``slot`` would get; raises NotFound, also if the name stands for several slots."""
    asked, ad = _slot(session, slot)
    found = session.perform("waiting", queues=asked.queues)
    waiting = [WaitingAutocluster(**one) for one in found["autoclusters"]]
    queues = asked.queues or sorted({each.queue for each in waiting})
    slot_match = SlotMatch(asked.name, asked.state or "", asked.activity or "", queues)
    slot_match.reasons = _reasons(asked, ad)

    autoclusters, positions = Autoclusters(len(waiting) + 1), Positions(len(waiting) + 1)
    shares = shares_of(found)
    ids = [each.autocluster_id for each in waiting]
    seen = session.perform("seen_by_slot", machine=asked.machine, slot=asked.name, autoclusters=ids)
    autoclusters.add(AutoclusterAd(**one) for one in seen["autoclusters"])
    resting = set(seen["resting"])
    known = {
        each.autocluster_id: autocluster
        for each in waiting
        if (autocluster := autoclusters.get(each.autocluster_id)) is not None
    }
    explained = asyncio.run(explained_on(ad, known))
    passed_over: Counter[str] = Counter()
    offered: dict[tuple[int, int], WaitingAutocluster] = {}
    for each in waiting:
        reason = _reason(each, explained.get(each.autocluster_id), resting)
        if reason is not None:
            passed_over[reason] += 1
            continue
        offered[each.autocluster_id, each.job_prio] = each
        positions.took(each.autocluster_id, each.job_prio, each.position)
    slot_match.passed_over = {name: passed_over[name] for name in REASONS if passed_over[name]}
    choices = order(
        offered.values(),
        autoclusters=autoclusters,
        positions=positions,
        shares=shares,
        queues=queues,
    )
    # a stable sort: candidates with equal Rank keep their order
    choices.sort(key=lambda choice: -explained[choice.autocluster.autocluster_id].rank)
    for choice in choices:
        autocluster = choice.autocluster
        candidate = Candidate(
            autocluster_id=autocluster.autocluster_id,
            job=offered[autocluster.autocluster_id, choice.prio].first_job,
            submitter=autocluster.submitter,
            queue=autocluster.queue,
            job_prio=choice.prio,
            slot_rank=explained[autocluster.autocluster_id].rank,
            share=shares.need(autocluster.submitter),
            group=shares.group_of(autocluster.submitter) if shares.dues is not None else None,
            group_order=shares.turn(autocluster.submitter)[:2],
        )
        if slot_match.candidates:
            candidate.decided_by = _difference(slot_match.candidates[-1], candidate)
        slot_match.candidates.append(candidate)
    return slot_match


def shares_of(waiting: JsonObject) -> Shares:
    """The use of submitters and accounting groups, as the operation ``waiting`` answers it."""
    shares = Shares()
    groups = [GroupFigures(**one) for one in waiting["groups"]]
    shares.update([SubmitterShare(**one) for one in waiting["shares"]], 0.0, groups)
    return shares


def _slot(session: AnySession, name: str) -> tuple[AskedSlot, ClassAd]:
    """The slot with a name, and its ad with its present state."""
    slots = [AskedSlot(**row) for row in session.perform("slots_named", name=name)]
    # a host that changed its name left slots with the same names: choose the one that asked last
    slots = [slot for slot in slots if slot.name == name][:1] or slots
    if not slots:
        raise NotFound(f"no slot '{name}' has asked for work; allowed: a name that 'fetchwork slots' shows")
    if len(slots) > 1:
        names = ", ".join(slot.name for slot in slots[:5])
        raise NotFound(
            f"'{name}' has {len(slots)} slots; allowed: one of them ({names}{', ...' * (len(slots) > 5)})"
        )
    slot = slots[0]
    if slot.ad is None:
        raise NotFound(f"the ad of slot '{name}' has not been reported yet")
    ad = from_json(slot.ad)
    # the ad is reported less often than the state
    ad["State"], ad["Activity"] = slot.state or "", slot.activity or ""
    return slot, ad


def _reasons(slot: AskedSlot, ad: ClassAd) -> list[str]:
    reasons = []
    if not slot.alive:
        reasons.append(
            f"The agent of {slot.machine} is silent; the slot last asked {slot.asked_s_ago:.0f} s ago."
        )
    if slot.black_hole:
        why = " ".join((slot.bad_reason or "").split())
        reasons.append(f"{slot.machine} fails to run jobs and is offered only a probe now and then: {why}")
    state = why_not(ad)
    if slot.slot_type != "Partitionable" and slot.job is not None:
        reasons.append(f"It has job {slot.job}; these jobs come after it.")
    elif state == "claimed_by_schedd":
        reasons.append("It is claimed by a schedd; nothing is offered to it until that is over.")
    elif state is not None:
        reasons.append(f"It is {slot.state}/{slot.activity}; nothing is offered to it until that is over.")
    return reasons


async def explained_on(slot: ClassAd, autoclusters: dict[int, Autocluster]) -> dict[int, Explanation]:
    """Evaluate each autocluster on the slot in a matchmaker, where other people's ads do no harm."""
    matchmaker = Matchmaker()
    try:
        return await matchmaker.explain(print_old(slot).encode(), autoclusters)
    finally:
        await matchmaker.close()


def _reason(waiting: WaitingAutocluster, explained: Explanation | None, resting: set[int]) -> str | None:
    """The reason that a waiting autocluster is not for the slot; None if it is."""
    if waiting.blocked is not None:
        return "blocked"
    if explained is None:
        return "unseen"
    if waiting.autocluster_id in resting:
        return "resting"
    return explained.reason


def _difference(before: Candidate, this: Candidate) -> str:
    """The figure that places one candidate before the next, in the order of ``matching.choose``."""
    if before.slot_rank != this.slot_rank:
        return "slot's Rank"
    if before.queue != this.queue:
        return "order of queues"
    if before.group_order != this.group_order:
        return "quota of groups"
    if before.submitter != this.submitter:
        return "share" if before.share != this.share else "name"
    return "JobPrio" if before.job_prio != this.job_prio else "age"
