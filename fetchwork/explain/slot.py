"""What a slot would get if it asked now, in order, with the figures that the order comes from.

It is what an agent does at FETCH_WORK (``matching.choose``), with two differences: the age of what waits is
read from the queue and not remembered, and nothing is claimed. Autoclusters whose ads the caller may not see
can't be evaluated; they are counted.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.database import Database
from fetchwork.errors import NotFound
from fetchwork.matching.autoclusters import Autocluster, Autoclusters
from fetchwork.matching.choose import choose
from fetchwork.matching.fit import SlotView
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares
from fetchwork.matching.slotstate import why_not

#: why something that waits is not for this slot; the first that is true counts
REASONS = {
    "blocked": "kept by a limit or a paused queue",
    "resting": "refused by this slot a while ago",
    "resources": "asking for more than the slot has",
    "job_refuses": "rejecting the slot by their Requirements",
    "slot_refuses": "rejected by the slot's START or Requirements",
    "unseen": "not yours to see",
}

_SLOT = """
SELECT s.name, s.machine, s.state, s.activity, s.slottype, s.fetchworkqueues, s.jobid, s.ad,
    extract(epoch FROM now() - s.last_fetch_at)::float8 AS asked_s_ago,
    h.agent_version IS NULL OR h.alive AS alive, h.black_hole_since_at IS NOT NULL AS black_hole, h.bad_reason
FROM fetchwork.slots AS s
JOIN fetchwork.hosts AS h ON h.machine = s.machine
WHERE s.name = %s OR s.machine = %s OR split_part(s.name, '@', 1) || '@' || split_part(s.machine, '.', 1) = %s
ORDER BY s.name
"""


@dataclass(slots=True)
class Candidate:
    """One kind of job that the slot would be offered."""

    autocluster_id: int
    job: str | None
    submitter: str
    queue: str
    job_prio: int
    #: the slot's Rank of it
    slot_rank: float
    #: effective priority + factor x (slots in use + 1): the lowest is next
    share: float
    #: what decides between it and the one before it
    decided_by: str = ""


@dataclass(slots=True)
class SlotMatch:
    """What a slot would get; ``reasons`` are sentences on why it gets nothing, or not now."""

    slot: str
    state: str
    activity: str
    queues: list[str]
    reasons: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    #: kinds that wait in its queues and are not for it, by reason
    passed_over: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return dataclasses.asdict(self)


def match(database: Database, slot: str) -> SlotMatch:
    """Look what ``slot`` would get; raises NotFound, also where the name stands for several slots."""
    row = _slot(database, slot)
    ad = from_json(row["ad"])
    # the ad is told less often than the state
    ad["State"], ad["Activity"] = row["state"] or "", row["activity"] or ""
    waiting = database.call("waiting_autoclusters", queues=row["fetchworkqueues"])
    queues = row["fetchworkqueues"] or sorted({one["queue"] for one in waiting})
    found = SlotMatch(row["name"], row["state"] or "", row["activity"] or "", queues)
    found.reasons = _reasons(row, ad)

    autoclusters, positions, shares = Autoclusters(len(waiting) + 1), Positions(len(waiting) + 1), Shares()
    shares.update(database.call("shares"), 0.0)
    autoclusters.add(
        {**one, "autocluster_id": one["autoclusterid"], "queue": one["fetchworkqueue"]}
        for one in database.query(
            "SELECT autoclusterid, submitter, owner, fetchworkqueue, ad FROM fetchwork.autoclusters"
            " WHERE autoclusterid = ANY (%s)",
            [[one["autocluster_id"] for one in waiting]],
        )
    )
    resting = {
        one["autoclusterid"]
        for one in database.query(
            "SELECT autoclusterid FROM fetchwork.rests"
            " WHERE machine = %s AND name = %s AND rest_until_at > now()",
            [row["machine"], row["name"]],
        )
    }
    offer = SlotView(ad)
    passed_over: Counter[str] = Counter()
    offered = {}
    for one in waiting:
        autocluster = autoclusters.get(one["autocluster_id"])
        reason = _reason(one, autocluster, offer, resting)
        if reason is not None:
            passed_over[reason] += 1
            continue
        offered[one["autocluster_id"], one["job_prio"]] = one
        positions.took(one["autocluster_id"], one["job_prio"], one["position"])
    found.passed_over = {name: passed_over[name] for name in REASONS if passed_over[name]}
    choices = choose(
        offered.values(), offer, autoclusters=autoclusters, positions=positions, shares=shares, queues=queues
    )
    for choice in choices:
        one = offered[choice.autocluster.autocluster_id, choice.prio]
        candidate = Candidate(
            autocluster_id=choice.autocluster.autocluster_id,
            job=one["first_job"],
            submitter=choice.autocluster.submitter,
            queue=choice.autocluster.queue,
            job_prio=choice.prio,
            slot_rank=offer.rank(choice.autocluster.request) if choice.autocluster.request else 0.0,
            share=shares.need(choice.autocluster.submitter),
        )
        if found.candidates:
            candidate.decided_by = _difference(found.candidates[-1], candidate)
        found.candidates.append(candidate)
    return found


def _slot(database: Database, name: str) -> dict[str, Any]:
    rows = database.query(_SLOT, [name, name, name])
    exact = [row for row in rows if row["name"] == name]
    rows = exact or rows
    if not rows:
        raise NotFound(f"no slot '{name}' has asked for work; allowed: a name that 'fetchwork slots' shows")
    if len(rows) > 1:
        names = ", ".join(row["name"] for row in rows[:5])
        raise NotFound(
            f"'{name}' has {len(rows)} slots; allowed: one of them ({names}{', ...' * (len(rows) > 5)})"
        )
    if rows[0]["ad"] is None:
        raise NotFound(f"the ad of slot '{name}' has not been reported yet")
    return rows[0]


def _reasons(row: Mapping[str, Any], ad: ClassAd) -> list[str]:
    reasons = []
    if not row["alive"]:
        reasons.append(
            f"The agent of {row['machine']} is silent; the slot last asked {row['asked_s_ago']:.0f} s ago."
        )
    if row["black_hole"]:
        why = " ".join((row["bad_reason"] or "").split())
        reasons.append(f"{row['machine']} fails to run jobs and is offered only a probe now and then: {why}")
    state = why_not(ad)
    if row["slottype"] != "Partitionable" and row["jobid"] is not None:
        reasons.append(f"It has job {row['jobid']}; this is what comes after it.")
    elif state == "claimed_by_schedd":
        reasons.append("It is claimed by a schedd; nothing is offered to it until that is over.")
    elif state is not None:
        reasons.append(
            f"It is {row['state']}/{row['activity']}; nothing is offered to it until that is over."
        )
    return reasons


def _reason(
    one: Mapping[str, Any], autocluster: Autocluster | None, offer: SlotView, resting: set[int]
) -> str | None:
    """Why a kind of job that waits is not for the slot; None if it is."""
    if one["blocked"] is not None:
        return "blocked"
    if autocluster is None:
        return "unseen"
    if one["autocluster_id"] in resting:
        return "resting"
    if autocluster.request is None:
        return None
    if offer.shortage(autocluster.request) is not None:
        return "resources"
    if not offer.job_accepts(autocluster.request):
        return "job_refuses"
    return None if offer.slot_accepts(autocluster.request) else "slot_refuses"


def _difference(before: Candidate, this: Candidate) -> str:
    """What puts one candidate before the next, in the order of ``matching.choose``."""
    if before.slot_rank != this.slot_rank:
        return "slot's Rank"
    if before.queue != this.queue:
        return "order of queues"
    if before.submitter != this.submitter:
        return "share" if before.share != this.share else "name"
    return "JobPrio" if before.job_prio != this.job_prio else "age"
