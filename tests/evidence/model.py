"""The model of a job: its states, and the steps that the queue's functions make.

The model says on a page what the queue promises about one job, and knows nothing of the SQL. ``explore.py``
searches all states of hosts and jobs with crashes; the checker replays the histories of real runs.
"""

from __future__ import annotations

from collections.abc import Iterator
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

    @property
    def ended(self) -> bool:
        """The job has left the queue."""
        return self.run is None and self.status in (REMOVED, COMPLETED)


#: before its submission
ABSENT: Job | None = None


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
        elif step.name == "read" and step.result == None:  # noqa: E711 - ANY equals everything
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
    yield job, ("gone" if not _live(job, step) else "end" if job.request else None)


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


def _read(job: Job, step: Step) -> Iterator[tuple[Job, Any]]:
    yield job, [job.status, job.value]


_STEPS = {
    "claim": _claim,
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
}
