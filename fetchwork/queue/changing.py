"""Changes jobs in the queue: hold, release, remove, vacate, suspend, continue, edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from fetchwork.codes import JobStatus
from fetchwork.db.calls import jobs as job_calls
from fetchwork.db.calls import maintenance, reading
from fetchwork.db.calls.call import Call
from fetchwork.errors import NotFound
from fetchwork.queue.ask import Ask, Memory, Steps, collected
from fetchwork.queue.reading.ads import ads
from fetchwork.queue.reading.selecting import FACTORIES, JobSpec, constraint_of, ids_of
from fetchwork.queue.reading.views import JOBS, Json

if TYPE_CHECKING:
    from fetchwork.classad.bindings import JobAction

#: ids in one call of a SQL function that changes jobs; each call is a transaction
BATCH = 10_000

_NO_STATE = frozenset[int]()
_RUNNING = frozenset({int(JobStatus.RUNNING), int(JobStatus.SUSPENDED)})


@dataclass(frozen=True)
class _Action:
    call: Callable[..., Call[int]] | None
    #: the states in which the action is possible, and those in which it is already done
    fitting: frozenset[int] = _NO_STATE
    done: frozenset[int] = _NO_STATE
    #: whether a schedd counts all jobs that a cluster or a constraint selects, or only those in fitting
    #: states
    looks_at_all: bool = False


# by the names of JobAction
_ACTIONS = {
    "Hold": _Action(
        job_calls.hold, frozenset({JobStatus.IDLE, *_RUNNING}), frozenset({JobStatus.HELD}), True
    ),
    "Release": _Action(job_calls.release, frozenset({JobStatus.HELD})),
    "Remove": _Action(
        job_calls.remove,
        # a job that has ended but was left in the queue leaves it
        frozenset({JobStatus.IDLE, *_RUNNING, JobStatus.HELD, JobStatus.COMPLETED}),
        frozenset({JobStatus.REMOVED}),
        True,
    ),
    "RemoveX": _Action(job_calls.remove_now, frozenset({JobStatus.REMOVED})),
    "Vacate": _Action(job_calls.vacate, _RUNNING),
    "VacateFast": _Action(job_calls.vacate, _RUNNING),
    "Suspend": _Action(job_calls.suspend, frozenset({JobStatus.RUNNING})),
    "Continue": _Action(job_calls.resume, frozenset({JobStatus.SUSPENDED})),
}
_IMPOSSIBLE = _Action(None)


@dataclass(frozen=True)
class Selection:
    """The jobs that a spec selects: their ids, their number, and the number of named jobs not in the queue.

    A whole cluster stays one id, unless it has too many jobs for one transaction. ``named`` counts, by
    JobStatus, the jobs that were named singly, ``others`` those that a cluster or a constraint selected.
    ``repeated`` is the number of repeated names of jobs. With
    ``gone_ok`` the ids were searched for, and some jobs may have left the queue since.
    """

    ids: list[str]
    jobs: int
    missing: int
    named: Counter[int] = field(default_factory=Counter)
    others: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    gone_ok: bool = False

    def batches(self) -> list[list[str]]:
        """The ids, in lists short enough for one call."""
        return [self.ids[start : start + BATCH] for start in range(0, len(self.ids), BATCH)]


def selected(spec: JobSpec, memory: Memory) -> Steps[Selection]:
    """The jobs in the queue that a spec selects; raises ValueError for an empty constraint."""
    ids = ids_of(spec)
    if ids is None:
        some = ["ClusterId", "ProcId", "JobStatus"]
        jobs = yield from collected(ads(JOBS, constraint_of(spec), memory, projection=some))
        # a schedd's tools treat jobs that transfer output as running
        statuses = Counter(
            int(JobStatus.RUNNING if status == JobStatus.TRANSFERRING_OUTPUT else status)
            for status in (ad["JobStatus"] for ad in jobs)
        )
        found = [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in jobs]
        # the constraint selects the jobs of a late cluster that are not made yet by the cluster's ad
        late = yield from collected(ads(FACTORIES, constraint_of(spec), memory, projection=["ClusterId"]))
        found = [*(f"{ad['ClusterId']}.-1" for ad in late), *found]
        return Selection(found, len(jobs), 0, others=statuses, gone_ok=True)
    if not ids:
        return Selection([], 0, 0)
    asked: list[reading.NamedJobs] = []
    for start in range(0, len(ids), BATCH):
        asked += yield reading.named_jobs(ids=ids[start : start + BATCH])
    # each job once, so that the jobs that could not be changed can be counted
    count = {one.id: one.jobs for one in asked}
    present = {id: number for id, number in count.items() if number}
    chosen = [id for id in present if "." not in id or id.split(".")[0] not in present]
    total = sum(present[id] for id in chosen)
    gone_ok = False
    for id in [id for id in chosen if present[id] > BATCH]:
        # too many for one transaction
        chosen.remove(id)
        members = yield from collected(
            ads(JOBS, f"ClusterId == {id}", memory, projection=["ClusterId", "ProcId"])
        )
        chosen += [f"{id}.-1", *(f"{ad['ClusterId']}.{ad['ProcId']}" for ad in members)]
        gone_ok = True
    single = {id for id in present if "." in id and id.split(".")[0] not in present}
    return Selection(
        chosen,
        total,
        len(count) - len(present),
        _statuses(one for one in asked if one.id in single),
        _statuses(one for one in asked if "." not in one.id),
        sum(id in single for id in ids) - len(single),
        gone_ok,
    )


def _statuses(named: Iterable[reading.NamedJobs]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for one in named:
        counts[JobStatus.IDLE] += one.idle
        counts[JobStatus.RUNNING] += one.running
        counts[JobStatus.REMOVED] += one.removed
        counts[JobStatus.HELD] += one.held
        counts[JobStatus.COMPLETED] += one.completed
        counts[JobStatus.SUSPENDED] += one.suspended
    return counts


def named(action: JobAction, reason: str | None) -> str:
    """An action's name; raises TypeError if the action is no JobAction or the reason is no text."""
    from fetchwork.classad.bindings import JobAction

    if not isinstance(action, JobAction):
        raise TypeError("action must be a JobAction")
    if reason is not None and not isinstance(reason, str):
        raise TypeError("reason must be a string")
    return str(action.name)


def changed(
    action: JobAction, spec: JobSpec, memory: Memory, reason: str | None, subcode: int = 0
) -> Steps[tuple[Selection, int]]:
    """Act on jobs; returns the selection and the number of changed jobs.

    ``subcode`` is that of a hold.
    """
    named(action, reason)
    selection = yield from selected(spec, memory)
    return selection, (yield from _applied(action.name, selection, reason, subcode))


def _applied(action: str, selection: Selection, reason: str | None, subcode: int) -> Steps[int]:
    """The number of jobs that an action changed."""
    call = _ACTIONS.get(action, _IMPOSSIBLE).call
    more = {"subcode": subcode} if action == "Hold" and subcode else {}
    number = 0
    if call is not None:
        for ids in selection.batches():
            number += yield call(jobs=ids, reason=reason, gone_ok=selection.gone_ok, **more)
    return number


class Outcome(Enum):
    """The effect of an action on a named job."""

    DONE = "done"
    ALREADY = "already done"
    UNFIT = "in no state for it"
    DENIED = "permission denied"
    UNKNOWN = "not found"


def standing(action: str, ids: Sequence[str]) -> Steps[dict[str, Outcome | None]]:
    """The outcomes that are certain for jobs ('42.0') before the action; None for jobs to try it on."""
    known = _ACTIONS.get(action, _IMPOSSIBLE)
    outcomes: dict[str, Outcome | None] = {}
    for start in range(0, len(ids), BATCH):
        asked: list[reading.NamedJobs] = yield reading.named_jobs(ids=ids[start : start + BATCH])
        for one in asked:
            statuses = {status for status, number in _statuses([one]).items() if number}
            if not one.jobs:
                outcomes[one.id] = Outcome.UNKNOWN
            elif statuses & known.done:
                outcomes[one.id] = Outcome.ALREADY
            else:
                outcomes[one.id] = None if statuses & known.fitting else Outcome.UNFIT
    return outcomes


def changed_of(
    action: str, spec: JobSpec, memory: Memory, reason: str | None, subcode: int = 0
) -> Steps[int]:
    """Act on jobs; returns the number of changed jobs."""
    selection = yield from selected(spec, memory)
    return (yield from _applied(action, selection, reason, subcode))


def act(
    action: JobAction, spec: JobSpec, memory: Memory, reason: str | None, subcode: int = 0
) -> Steps[Json]:
    """As ``changed``; the counts are those of ``Schedd.act``."""
    selection, number = yield from changed(action, spec, memory, reason, subcode)
    (total,) = yield Ask("SELECT coalesce(sum(jobs), 0)::bigint AS jobs FROM fetchwork.totals")
    states = _ACTIONS.get(action.name, _IMPOSSIBLE)
    seen = selection.named + selection.others if states.looks_at_all else selection.named
    already = sum(seen[status] for status in states.done)
    bad = sum(count for status, count in seen.items() if status not in states.fitting | states.done)
    return {
        "TotalSuccess": number,
        # a repeated name finds the job already done, or unfit
        "TotalBadStatus": bad + (0 if states.done else selection.repeated),
        "TotalNotFound": selection.missing,
        "TotalError": 0,
        "TotalAlreadyDone": already + (selection.repeated if states.done else 0),
        "TotalPermissionDenied": 0,
        # for an empty list HTCondor asks no schedd
        "TotalJobAds": total["jobs"] if ids_of(spec) != [] else 0,
        "TotalChangedAds": int(number > 0),
    }


def edit(spec: JobSpec, changes: Mapping[str, object], memory: Memory) -> Steps[int]:
    """Change attributes; returns the number of jobs changed. ``changes`` is in HTCondor's JSON form."""
    selection = yield from selected(spec, memory)
    # as in HTCondor: an empty list names no job, any other spec selects some, and single jobs all exist
    ids = ids_of(spec)
    if ids != [] and not selection.ids:
        raise NotFound(f"no job in the queue matches {spec!r}")
    if ids is not None and selection.missing and all("." in id for id in ids):
        raise NotFound(f"{selection.missing} of the jobs {spec!r} are not in the queue: none was changed")
    number = 0
    for ids in selection.batches():
        number += yield job_calls.edit(jobs=ids, changes=changes, gone_ok=selection.gone_ok)
    return number


def value_of(value: object) -> Any:
    """The argument of ``edit`` in JSON form: an expression, its text, or a plain Python value."""
    from fetchwork.classad.ads import parse_expr
    from fetchwork.classad.jsonform import to_json
    from fetchwork.classad.values import ClassAd

    ad = ClassAd()
    ad["value"] = parse_expr(value) if isinstance(value, str) else value
    return to_json(ad)["value"]


def reschedule() -> Steps[None]:
    """Tell waiting agents to look for work now."""
    yield maintenance.notify_agents()
