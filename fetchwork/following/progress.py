"""Follows jobs to their end: the state of each, from one snapshot and the events after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fetchwork.codes import EventType, JobStatus
from fetchwork.errors import NotFound
from fetchwork.queue.events.jobevents import JobEvent
from fetchwork.queue.reading.selecting import id_of
from fetchwork.queue.remote import AnySession

# the JobStatus after an event, if the job stays in the queue
_STATUS = {
    EventType.EXECUTE: JobStatus.RUNNING,
    EventType.JOB_EVICTED: JobStatus.IDLE,
    EventType.JOB_SUSPENDED: JobStatus.SUSPENDED,
    EventType.JOB_UNSUSPENDED: JobStatus.RUNNING,
    EventType.JOB_HELD: JobStatus.HELD,
    EventType.JOB_RELEASED: JobStatus.IDLE,
}
_NAMES = {
    JobStatus.IDLE: "idle",
    JobStatus.RUNNING: "running",
    JobStatus.HELD: "held",
    JobStatus.SUSPENDED: "suspended",
}


@dataclass
class Progress:
    """The state of jobs: the jobs in the queue by status, and the outcomes of the others."""

    waiting: dict[tuple[int, int], int] = field(default_factory=dict)
    succeeded: int = 0
    failed: int = 0
    removed: int = 0
    #: the end of the job that was noticed last, in words
    last: str = ""
    #: the hold reason of the job that was held last
    hold_reason: str = ""

    @property
    def total(self) -> int:
        """The number of all jobs."""
        return len(self.waiting) + self.ended

    @property
    def ended(self) -> int:
        """The number of jobs that have left the queue; a removed job leaves when its run has ended."""
        return self.succeeded + self.failed + self.removed

    def counts(self) -> dict[str, int]:
        """The numbers of jobs in the queue, by status."""
        numbers = Counter(self.waiting.values())
        return {name: numbers[status] for status, name in _NAMES.items()}

    def take(self, event: JobEvent) -> bool:
        """Record an event; return whether it ended a job."""
        job = (event.cluster, event.proc)
        if job not in self.waiting:
            # it ended before the snapshot, which counted it
            return False
        if event.type_number == EventType.JOB_HELD:
            self.hold_reason = str(event.get("HoldReason", ""))
        if event.type_number in _STATUS:
            self.waiting[job] = _STATUS[event.type_number]
            return False
        if event.type_number not in (EventType.JOB_TERMINATED, EventType.JOB_ABORTED):
            return False
        del self.waiting[job]
        if event.type_number == EventType.JOB_ABORTED:
            self.removed += 1
            self.last = f"job {event.job_id} was removed"
        else:
            code, signal = event.get("ReturnValue"), event.get("TerminatedBySignal")
            self.succeeded += code == 0 and signal is None
            self.failed += not (code == 0 and signal is None)
            ending = f"signal {signal}" if signal is not None else f"exit code {code}"
            self.last = f"job {event.job_id} ended with {ending}"
        return True


def follow(session: AnySession, jobs: Sequence[str], stop_after: float | None) -> Iterator[Progress]:
    """Yield the state of jobs, given by id, now and after each batch of events; raises NotFound.

    It ends when no job is left, or when the time is over.
    """
    now = session.perform("cursor")
    progress = snapshot(session, jobs)
    yield progress
    if not progress.waiting:
        return
    for lines in session.found("events", after=now, job=list(jobs), stop_after=stop_after):
        for line in lines:
            progress.take(JobEvent(line))
        yield progress
        if not progress.waiting:
            return


def snapshot(session: AnySession, jobs: Sequence[str]) -> Progress:
    """Return the present state of jobs, given by id; raises NotFound for an id that was never assigned."""
    progress = Progress()
    for word in jobs:
        cluster, proc = id_of(word)
        found = session.perform("progress", cluster=cluster, proc=proc)
        for status, first, last in found["waiting"]:
            # a removed job's run is still ending; a job whose outputs are being delivered is not over
            ending = status in (JobStatus.REMOVED, JobStatus.TRANSFERRING_OUTPUT)
            shown = JobStatus.RUNNING if ending else status
            progress.waiting.update(((cluster, number), shown) for number in range(first, last + 1))
        progress.hold_reason = found["hold_reason"] or progress.hold_reason
        progress.succeeded += found["succeeded"]
        progress.failed += found["failed"]
        progress.removed += found["removed"]
        if not progress.total:
            raise NotFound(f"job {word} is neither in the queue nor in its history")
    return progress
