"""Counters of jobs' events, from the event stream: they count from the start of the process.

Prometheus expects counters to begin anew with a process. While the database is away nothing is lost: the
reader goes on behind the last event that it counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter

from fetchwork.codes import EventType
from fetchwork.errors import FetchworkError
from fetchwork.log import event as log_event
from fetchwork.queue.events.jobevents import CursorExpired, JobEvent
from fetchwork.queue.events.reader import Reader
from fetchwork.queue.session import Session

log = logging.getLogger(__name__)

#: seconds until a database that did not answer is asked again
RETRY_S = 5.0
#: seconds that one call waits for events, so that ``stop`` takes effect
WAIT_S = 1.0
#: hold codes with a label of their own; a site's own policies may have any
MAX_HOLD_CODES = 100
OTHER = "other"

_OUTCOMES = (
    "SELECT outcome::text AS outcome FROM fetchwork.runs WHERE runid = ANY (%s) AND outcome IS NOT NULL"
)


class Follower:
    """A thread that reads events from its start on, and passes them to ``take``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        """Begin to read events from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for its end."""
        self._stopping.set()
        self._thread.join()

    def begin(self) -> None:
        """Do what comes after the choice of the first event."""

    def take(self, events: Sequence[JobEvent]) -> None:
        """Take some events."""
        raise NotImplementedError

    def missed_some(self) -> None:
        """Note that events were dropped before they could be read."""

    def _follow(self) -> None:
        reader, begun = Reader(after="now"), False
        while not self._stopping.is_set():
            try:
                for events in self._session.pages(reader.events(WAIT_S if begun else 0)):
                    self.take(events)
                if not begun:
                    self.begin()
                    begun = True
            except CursorExpired as error:
                log_event(log, logging.WARNING, "events_missed", problem=error)
                self.missed_some()
                reader = Reader(after="now")
            except FetchworkError as error:
                log_event(log, logging.WARNING, "events_not_read", problem=error)
                self._stopping.wait(RETRY_S)


class EventCounters(Follower):
    """The counters, and the thread that reads events for them."""

    def __init__(self, registry: CollectorRegistry, session: Session) -> None:
        super().__init__(session)
        self._holds: set[str] = set()

        def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(name, text, labels, registry=registry)

        self.submitted = counter("JobsSubmitted", "Jobs that were submitted")
        self.started = counter("JobsStarted", "Starts of jobs")
        self.exited = counter("JobsExited", "Jobs that ended by themselves", ["ending"])
        self.evicted = counter("JobsEvicted", "Runs that ended before their jobs did", ["outcome"])
        self.held = counter("JobsHeld", "Jobs that were held", ["code"])
        self.released = counter("JobsReleased", "Held jobs that were released")
        self.removed = counter("JobsRemoved", "Jobs that were removed")
        self.missed = counter("EventGaps", "Times that events were dropped before they could be counted")
        for ending in ("success", "failure", "signal"):
            self.exited.labels(ending)
        self._counts: dict[int, Callable[[JobEvent], None]] = {
            EventType.SUBMIT: lambda event: self.submitted.inc(),
            EventType.EXECUTE: lambda event: self.started.inc(),
            EventType.JOB_TERMINATED: lambda event: self.exited.labels(_ending(event)).inc(),
            EventType.JOB_HELD: self._count_hold,
            EventType.JOB_RELEASED: lambda event: self.released.inc(),
            EventType.JOB_ABORTED: lambda event: self.removed.inc(),
        }

    def take(self, events: Sequence[JobEvent]) -> None:
        """Count some events; the database knows the outcomes of evicted runs."""
        evicted = []
        for event in events:
            count = self._counts.get(event.type_number)
            if count is not None:
                count(event)
            elif event.type_number == EventType.JOB_EVICTED:
                evicted.append(event.run_id)
        if evicted:
            outcomes = self._outcomes([run for run in evicted if run is not None])
            for outcome in outcomes:
                self.evicted.labels(outcome).inc()
            self.evicted.labels(OTHER).inc(max(0, len(evicted) - len(outcomes)))

    def _outcomes(self, runs: list[int]) -> list[str]:
        """Outcomes of runs, in no order; fewer than requested if some are not known."""
        try:
            return [row["outcome"] for row in self._session.database.query(_OUTCOMES, [runs])]
        except FetchworkError:
            # the reader has passed these events
            return []

    def _count_hold(self, event: JobEvent) -> None:
        code = str(event.get("HoldReasonCode"))
        if code not in self._holds and len(self._holds) >= MAX_HOLD_CODES:
            code = OTHER
        self._holds.add(code)
        self.held.labels(code).inc()

    def missed_some(self) -> None:
        self.missed.inc()


def _ending(event: JobEvent) -> str:
    """The end of a job, as a label."""
    if event.get("TerminatedNormally") is False or event.get("TerminatedBySignal") is not None:
        return "signal"
    return "success" if event.get("ReturnValue") == 0 else "failure"
