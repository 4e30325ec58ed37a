"""``JobEventLog``: the events of one log, without the file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from fetchwork.errors import NotFound
from fetchwork.queue import Queue
from fetchwork.queue.events.jobevents import EventFile, JobEvent
from fetchwork.queue.synchronous import performer_of


class JobEventLog:
    """The events of all jobs whose ``log`` is one file, as ``htcondor2.JobEventLog`` yields them.

    It reads the database, so the file need not exist or be on this machine, and events survive its deletion.
    HTCondor's own reader reads a file of jobs that the database does not know; such events have no cursor.
    Raises NotFound if there is neither such a job nor such a file.

    The object is its own iterator; asked again after its end, it yields the events that have come since. A
    pickled object, and one with a cursor as ``after``, continues at its position. The connection string is
    pickled too.
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
        # the path as HTCondor's submit makes it absolute, then with its links resolved
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
        """Return an iterator; it waits for ever (None), not at all (0), or for at most so many seconds."""
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
            # the next call asks again
            self._events = None
            raise
        self.cursor = event.cursor
        return event

    def _read(self) -> Iterator[JobEvent]:
        performer = performer_of(self._queue)
        if self.cursor == "now":
            self.cursor = performer.perform("cursor")
        # continue after the last event returned, not after the last one read
        lines = performer.items("events", after=self.cursor, log=self._path, stop_after=self._seconds_left())
        return map(JobEvent, lines)

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def __getstate__(self) -> dict[str, object]:
        # leave out a page half read, and this machine's clock
        return {**self.__dict__, "_events": None, "_deadline": self._seconds_left()}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self._deadline is not None:
            self._deadline += time.monotonic()

    def __enter__(self) -> JobEventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
