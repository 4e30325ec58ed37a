"""``JobEventLog``: the events of one log, without the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fetchwork.queue import Queue
from fetchwork.queue.events import JobEvent
from fetchwork.queue.reader import Reader


class JobEventLog:
    """The events of all jobs whose ``log`` is one file, as ``htcondor2.JobEventLog`` yields them.

    It reads the database, so the file need not exist, nor be on this machine. Pickled, or with ``after`` a
    cursor, it goes on where it was.
    """

    def __init__(self, filename: str, queue: Queue | None = None, *, after: str | None = None) -> None:
        if not isinstance(filename, str):
            raise TypeError("filename must be a string")
        if not filename:
            raise ValueError("filename must not be empty")
        # as HTCondor's submit makes it absolute: no link is followed
        self._path = str(Path(os.path.normpath(Path.cwd() / filename)))
        self._queue = queue or Queue()
        self._reader = Reader(after=after, log=self._path)
        self._events: Iterator[JobEvent] = iter(())
        self.cursor = after

    def events(self, stop_after: float | None = None) -> JobEventLog:
        """An iterator: None waits for ever, 0 does not wait, seconds bound the waiting."""
        if stop_after is not None and not isinstance(stop_after, int | float):
            raise TypeError("deadline must be a number of seconds")
        # from the last event that was taken, not from the last one that was read
        self._reader = Reader(after=self.cursor, log=self._path)
        self._events = self._queue.each(self._reader.events(stop_after))
        return self

    def close(self) -> None:
        """Produce no more events."""
        self._events = iter(())

    def __iter__(self) -> JobEventLog:
        return self

    def __next__(self) -> JobEvent:
        event = next(self._events)
        self.cursor = event.cursor
        return event

    def __enter__(self) -> JobEventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
