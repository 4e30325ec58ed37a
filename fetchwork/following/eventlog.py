"""``JobEventLog``: the events of one log, without the file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from fetchwork.errors import NotFound
from fetchwork.queue import Queue
from fetchwork.queue.events import EventFile, JobEvent
from fetchwork.queue.synchronous import performer_of


class JobEventLog:
    """The events of all jobs whose ``log`` is one file, as ``htcondor2.JobEventLog`` yields them.

    It reads the database, so the file need not exist, nor be on this machine; nor does deleting it forget
    events. A file of jobs that the database does not know is read by HTCondor's own reader, whose events have
    no cursor. Raises NotFound where there is neither such a job nor such a file.

    It is its own iterator, and one that has no more events yields those that have come since when it is asked
    again. Pickled, or with ``after`` a cursor, it goes on where it was; the connection string is pickled with
    it.
    """

    def __init__(self, filename: str, queue: Queue | None = None, *, after: str | None = None) -> None:
        if not isinstance(filename, str):
            raise TypeError("filename must be a string")
        if not filename:
            raise ValueError("filename must not be empty")
        self._queue = queue or Queue()
        self._deadline: float | None = None
        self._closed = False
        self._events: Iterator[JobEvent] | None = None
        self._file: EventFile | None = None
        self.cursor = after
        # as HTCondor's submit makes it absolute, then with its links followed
        path = Path(os.path.normpath(Path.cwd() / filename))
        names = list(dict.fromkeys([str(path), str(path.resolve())]))
        known = performer_of(self._queue).perform("logs", paths=names)
        self._path = next((name for name in names if name in known), names[0])
        if not known:
            if not path.exists():
                raise NotFound(f"no job has the event log '{path}', and there is no such file")
            if path.is_file() and path.stat().st_size:
                self._file = EventFile(str(path))

    def events(self, stop_after: float | None = None) -> JobEventLog:
        """An iterator: None waits for ever, 0 does not wait, seconds bound the waiting."""
        if stop_after is not None and not isinstance(stop_after, int | float):
            raise TypeError("deadline must be a number of seconds")
        self._deadline = None if stop_after is None else time.monotonic() + stop_after
        self._closed = False
        self._events = None
        if self._file is not None:
            self._file.wait(stop_after)
        return self

    def close(self) -> None:
        """Produce no more events."""
        self._closed = True
        self._events = None

    def __iter__(self) -> JobEventLog:
        return self

    def __next__(self) -> JobEvent:
        if self._closed:
            raise StopIteration
        if self._file is not None:
            return next(self._file)
        if self._events is None:
            self._events = self._read()
        try:
            event = next(self._events)
        except StopIteration:
            # the next call looks again
            self._events = None
            raise
        self.cursor = event.cursor
        return event

    def _read(self) -> Iterator[JobEvent]:
        performer = performer_of(self._queue)
        if self.cursor == "now":
            self.cursor = performer.perform("cursor")
        # from the last event that was taken, not from the last one that was read
        lines = performer.items("events", after=self.cursor, log=self._path, stop_after=self._seconds_left())
        return map(JobEvent, lines)

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def __getstate__(self) -> dict[str, object]:
        # neither a page half read nor another machine's clock
        return {**self.__dict__, "_events": None, "_deadline": self._seconds_left()}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self._deadline is not None:
            self._deadline += time.monotonic()

    def __enter__(self) -> JobEventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
