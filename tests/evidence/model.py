"""The model of a job: its states, and the steps that the queue's functions make.

The model says on a page what the queue promises about one job, and knows nothing of the SQL. ``explore.py``
searches all states of hosts and jobs with crashes; the checker replays the histories of real runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

IDLE, RUNNING, REMOVED, COMPLETED, HELD = 1, 2, 3, 4, 5


class _Any:
    """Equals every result: the caller of an unanswered call saw none."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "any"


ANY = _Any()
#: the result of a call that can't be made
_NEVER = object()


@dataclass(frozen=True, slots=True)
class Job:
    """A job. ``run`` is its live run, which is offered until ``started``."""

    status: int = IDLE
    run: int | None = None
    started: bool = False
    #: its offer is on the disk: the startd's accept was
    accepted: bool = False
    #: the requested end of its run: hold, remove, vacate
    request: str | None = None
    #: the run's host has been told of the request
    told: bool = False
    #: the run that was lost last, while no other has begun
    lost: int | None = None
    #: the value that people edit
    value: int = 0
    #: the job as it is in the dump; None if it is not there
    dumped: Job | None = None

    @property
    def ended(self) -> bool:
        """The job has left the queue."""
        return self.run is None and self.status in (REMOVED, COMPLETED)


@dataclass(frozen=True, slots=True)
class Step:
    """A call as the model sees it: a name, the run that it is about, further arguments, the result."""

    name: str
    run: int = 0
    argument: Any = None
    result: Any = ANY


def steps(job: Job | None, step: Step) -> Iterator[Job | None]:
    """The states to which the job may go by this step; none if the result is impossible in this state."""
    if job is None:
        if step.name == "submit":
            yield Job(value=step.argument)
        elif _ABSENT.get(step.name, "NotFound") == step.result:
            yield None
        return
    handler = _STEPS.get(step.name)
    if handler is not None:
        for after, result in handler(job, step):
            if step.result == result:
                yield after


def _live(job: Job, step: Step) -> bool:
    return job.run == step.run


def _without_run(job: Job) -> Job:
    """The job after an end of its run that is no end of the job."""
    return replace(
        job,
        run=None,
        started=False,
        accepted=False,
        request=None,
        told=False,
        status=IDLE if job.status == RUNNING else job.status,
    )


def _claim(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if job.status == IDLE and job.run is None:
        yield replace(job, run=step.run, lost=None), True


def _next(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    # the claim and the start of a chain's next job, which are one
    for claimed, _ in _claim(job, step):
        yield replace(claimed, started=True, accepted=True, status=RUNNING), True


def _accept(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    yield (replace(job, accepted=True) if _live(job, step) else job), _live(job, step)


def _start(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    # the argument is the starter; a run's first starter is 0
    if _live(job, step) and job.request is None and (not job.started or step.argument == 0):
        yield replace(job, started=True, status=RUNNING), True
    else:
        yield job, False


def _heartbeat(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if not _live(job, step):
        yield job, "gone"
        yield job, "late"
    elif job.request is None:
        yield job, None
    else:
        yield replace(job, told=True), "end"


def _beat(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    # a run that is not started in this database was started in one that is undone
    yield job, ("gone" if not (_live(job, step) and job.started) else "end" if job.request else None)


def _finish(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    exited = step.argument == "exit"
    if _live(job, step):
        # the job's process never was
        yield _without_run(job), "could_not_start" if job.request is None else "withdrawn"
    if not _live(job, step) or not job.started:
        yield job, "late"
        yield job, "duplicate"
        if exited and job.lost == step.run and job.status == IDLE and job.run is None:
            yield replace(job, status=COMPLETED, lost=None), "completed"
    elif job.request in ("hold", "remove"):
        yield _without_run(job), {"hold": "held", "remove": "removed"}[job.request]
    elif job.request == "vacate" and (job.told or not exited):
        yield _without_run(job), "vacated"
    elif exited:
        yield replace(_without_run(job), status=COMPLETED), "completed"
    else:
        yield _without_run(job), "evicted"


def _lose(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    # the argument is the way: an offer that is not taken in time expires, one that is not accepted may go
    # with the server (a claim does not wait for the disk), any run is lost by its host's silence
    allowed = {"offer": not job.started, "crash": not (job.started or job.accepted)}
    if _live(job, step) and allowed.get(step.argument, True):
        yield replace(_without_run(job), lost=step.run if job.started else None), True


def _hold(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if job.ended:
        yield job, "NotFound"
    if job.status not in (IDLE, RUNNING):
        yield job, 0
    elif job.started:
        yield replace(job, status=HELD, request="hold"), 1
    else:
        # an offer is withdrawn
        yield replace(_without_run(job), status=HELD), 1


def _release(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if job.ended:
        yield job, "NotFound"
    if job.status != HELD:
        yield job, 0
    elif job.run is not None:
        yield replace(job, status=RUNNING, request="vacate"), 1
    else:
        yield replace(job, status=IDLE, lost=None), 1


def _remove(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if job.ended:
        yield job, "NotFound"
    if job.status in (REMOVED, COMPLETED):
        yield job, 0
    elif job.started:
        yield replace(job, status=REMOVED, request="remove"), 1
    else:
        yield replace(_without_run(job), status=REMOVED), 1


def _vacate(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if job.ended:
        yield job, "NotFound"
    if job.status == RUNNING and job.run is not None:
        yield replace(job, request="vacate"), 1
    else:
        yield job, 0


def _edit(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    if job.ended:
        yield job, "NotFound"
    if job.status in (REMOVED, COMPLETED):
        yield job, 0
    else:
        yield replace(job, value=step.argument), 1


def _dump(job: Job, step: Step) -> Iterator[tuple[Job | None, Any]]:
    yield replace(job, dumped=replace(job, dumped=None)), True


def _restore(job: Job, step: Step) -> Iterator[tuple[Job | None, Any]]:
    yield job.dumped, True


def _read(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    yield job, [job.status, job.value]


_STEPS: dict[str, Callable[[Job, Step], Iterator[tuple[Job | None, Any]]]] = {
    "claim": _claim,
    "next": _next,
    "accept": _accept,
    "start": _start,
    "heartbeat": _heartbeat,
    "beat": _beat,
    "finish": _finish,
    "lose": _lose,
    "hold": _hold,
    "release": _release,
    "remove": _remove,
    "vacate": _vacate,
    "edit": _edit,
    "read": _read,
    "dump": _dump,
    "restore": _restore,
}
#: the answers of calls about a job that is not there; an act's is NotFound
_ABSENT = {
    "read": None,
    "claim": _NEVER,
    "next": _NEVER,
    "lose": _NEVER,
    "accept": False,
    "start": False,
    "heartbeat": "gone",
    "beat": "gone",
    "finish": "late",
    "dump": True,
    "restore": True,
}
