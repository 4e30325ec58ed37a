"""Event logs of jobs that the database does not know, read by HTCondor's bindings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from fetchwork.queue.events import JobEvent


class EventFile:
    """The events of one file, as the bindings show them: without a cursor. It can be pickled."""

    def __init__(self, path: str) -> None:
        from fetchwork.classad.bindings import JobEventLog

        self._reader = JobEventLog(path)

    def wait(self, stop_after: float | None) -> None:
        """Wait so long for the next event, in whole seconds; None: for ever."""
        if stop_after is None:
            self._reader.events()
        else:
            self._reader.events(math.ceil(stop_after))

    def __next__(self) -> JobEvent:
        return cast("JobEvent", next(self._reader))
