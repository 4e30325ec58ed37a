"""Changing jobs in the queue: hold, release, remove, vacate, edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fetchwork.db import calls
from fetchwork.errors import JobStateConflict, NotFound
from fetchwork.queue.ask import Ask, Memory, Steps, collected
from fetchwork.queue.reading import ads
from fetchwork.queue.selecting import JobSpec, constraint_of, ids_of
from fetchwork.queue.views import JOBS, Json

if TYPE_CHECKING:
    from fetchwork.classad.bindings import JobAction

#: ids in one call of a function that changes jobs; each call is a transaction
BATCH = 10_000

# by the action's name
_CALLS = {
    "Hold": calls.hold,
    "Release": calls.release,
    "Remove": calls.remove,
    "Vacate": calls.vacate,
    "VacateFast": calls.vacate,
}


@dataclass(frozen=True)
class Selection:
    """The jobs that a spec means: their ids, how many they are, and how many named ones are not in the queue.

    A whole cluster stays one id, which is cheap for a million jobs.
    """

    ids: list[str]
    jobs: int
    missing: int

    def batches(self) -> list[list[str]]:
        """The ids, in lists that are not too long for one call."""
        return [self.ids[start : start + BATCH] for start in range(0, len(self.ids), BATCH)]


_NAMED = """
SELECT named.id, count(j.clusterid) AS jobs
FROM unnest(%s::text[]) AS named (id)
LEFT JOIN fetchwork.jobs AS j
    ON j.clusterid = split_part(named.id, '.', 1)::integer
    AND (named.id NOT LIKE '%%.%%' OR j.procid = nullif(split_part(named.id, '.', 2), '')::integer)
GROUP BY named.id
"""


def selected(spec: JobSpec, memory: Memory) -> Steps[Selection]:
    """The jobs in the queue that a spec means; raises ValueError for an empty constraint."""
    ids = ids_of(spec)
    if ids is None:
        some = ["ClusterId", "ProcId"]
        jobs = yield from collected(ads(JOBS, constraint_of(spec), memory, projection=some))
        return Selection([f"{ad['ClusterId']}.{ad['ProcId']}" for ad in jobs], len(jobs), 0)
    if not ids:
        return Selection([], 0, 0)
    rows = yield Ask(_NAMED, [ids])
    # each job once, so that what could not be changed can be counted
    present = {row["id"]: row["jobs"] for row in rows if row["jobs"]}
    ids = [id for id in present if "." not in id or id.split(".")[0] not in present]
    return Selection(ids, sum(present[id] for id in ids), len(rows) - len(present))


def act(action: JobAction, spec: JobSpec, memory: Memory, reason: str | None) -> Steps[Json]:
    """Hold, release, remove or vacate jobs; the counts as ``Schedd.act`` returns them."""
    from fetchwork.classad.bindings import JobAction

    if not isinstance(action, JobAction):
        raise TypeError("action must be a JobAction")
    call = _CALLS.get(action.name)
    if call is None:
        raise JobStateConflict(
            f"JobAction.{action.name} is not possible for fetched work;"
            " allowed: Hold, Release, Remove, Vacate"
        )
    selection = yield from selected(spec, memory)
    changed = 0
    for ids in selection.batches():
        changed += yield call(jobs=ids, reason=reason)
    return {
        "TotalSuccess": changed,
        "TotalBadStatus": selection.jobs - changed,
        "TotalNotFound": selection.missing,
        "TotalError": 0,
        "TotalAlreadyDone": 0,
        "TotalPermissionDenied": 0,
        "TotalJobAds": selection.jobs + selection.missing,
        "TotalChangedAds": changed,
    }


def edit(spec: JobSpec, changes: Mapping[str, object], memory: Memory) -> Steps[int]:
    """Change attributes; returns the number of jobs changed. ``changes`` is in HTCondor's JSON form."""
    selection = yield from selected(spec, memory)
    if selection.missing and not selection.ids:
        raise NotFound(f"no job in the queue matches {spec!r}")
    changed = 0
    for ids in selection.batches():
        changed += yield calls.edit(jobs=ids, changes=changes)
    return changed


def value_of(value: object) -> Any:
    """The value that ``edit`` is given, in JSON form: an expression, its text, or a plain Python value."""
    from fetchwork.classad.ads import parse_expr
    from fetchwork.classad.jsonform import to_json
    from fetchwork.classad.values import ClassAd

    ad = ClassAd()
    ad["value"] = parse_expr(value) if isinstance(value, str) else value
    return to_json(ad)["value"]


def reschedule() -> Steps[None]:
    """Tell waiting agents to look for work now."""
    yield Ask("SELECT pg_notify('fetchwork_work', '')")
