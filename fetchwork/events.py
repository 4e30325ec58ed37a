"""The event stream: what happened to jobs, in order, for readers that remember where they are.

Theory of operation
-------------------
An event is written in the transaction of the change that it tells. Its place is (transaction id, event id).
Event ids alone would not do: they are given out before the commit, so a reader that goes on behind the last
one it saw would step over the events of a slower transaction. A reader therefore reads only events of
transactions below the oldest one still open (``pg_snapshot_xmin``). What lies below can't get company any
more, so a cursor, once passed, is passed for good, on any machine and after any restart.

A reader that waits asks again every 10 to 50 ms instead of listening to notifications, which would not come
through a PgBouncer in transaction mode. What costs: one index probe.

The price of the order is that a transaction left open, in any database of that PostgreSQL cluster, holds back
all events written after it began, for as long as it is open. No event is lost by that.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import htcondor2

from fetchwork.errors import NotFound
from fetchwork.queue.steps import Ask, Found, Pause, Steps

if TYPE_CHECKING:
    from fetchwork.queue import Queue

JobEventType = htcondor2.JobEventType

# events in one answer: at 100 000 a second a page is a fraction of the time between two questions
PAGE = 5000
SHORTEST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.05

_CURSOR = re.compile(r"(\d{1,20})\.(\d{1,19})")


class CursorExpired(NotFound):
    """The events behind a cursor are not kept any more: some were missed."""


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in the stream; as text ``TRANSACTION.EVENT``."""

    xid: int
    event_id: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read a cursor's text; raises ValueError."""
        found = _CURSOR.fullmatch(text.strip())
        if found is None or int(found[1]) >= 2**64 or int(found[2]) >= 2**63:
            raise ValueError(
                f"cursor {text!r} is none; allowed: the cursor of an event, such as '812.4071', or 'now'"
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.xid}.{self.event_id}"


# HTCondor's classes of events, as the attribute MyType names them
MY_TYPES = {
    0: "SubmitEvent",
    1: "ExecuteEvent",
    2: "ExecutableErrorEvent",
    4: "JobEvictedEvent",
    5: "JobTerminatedEvent",
    6: "JobImageSizeEvent",
    8: "GenericEvent",
    9: "JobAbortedEvent",
    10: "JobSuspendedEvent",
    11: "JobUnsuspendedEvent",
    12: "JobHeldEvent",
    13: "JobReleaseEvent",
}


class JobEvent(Mapping[str, Any]):
    """One event, with the properties of ``htcondor2.JobEvent``, its ``cursor`` and the ``run_id`` it belongs to.

    It is a mapping of the event's attributes, whose names ignore case. ``str`` of it is its entry in an event
    log of HTCondor.
    """

    __slots__ = (
        "_attributes",
        "_info",
        "_lower",
        "cluster",
        "cursor",
        "epoch",
        "proc",
        "run_id",
        "type_number",
    )

    def __init__(
        self,
        *,
        xid: int,
        event_id: int,
        type_number: int,
        cluster: int,
        proc: int,
        run_id: int | None,
        epoch: float,
        info: str | None,
    ) -> None:
        self.cursor = f"{xid}.{event_id}"
        self.type_number = type_number
        self.cluster = cluster
        self.proc = proc
        self.run_id = run_id
        #: when it happened, in seconds, with a fraction
        self.epoch = epoch
        self._info = info
        self._attributes: dict[str, Any] | None = None
        self._lower: dict[str, str] = {}

    @property
    def type(self) -> Any:
        """The ``JobEventType``."""
        return JobEventType(self.type_number)

    @property
    def timestamp(self) -> int:
        """When it happened, in whole seconds."""
        return int(self.epoch)

    @property
    def job_id(self) -> str:
        """The job, as '42.0'."""
        return f"{self.cluster}.{self.proc}"

    def _all(self) -> dict[str, Any]:
        # most readers look at type and job only, so this waits until someone asks
        if self._attributes is None:
            moment = datetime.fromtimestamp(self.epoch, UTC).astimezone().replace(tzinfo=None)
            self._attributes = {
                "MyType": MY_TYPES.get(self.type_number, "GenericEvent"),
                "EventTypeNumber": self.type_number,
                "Cluster": self.cluster,
                "Proc": self.proc,
                "Subproc": 0,
                "EventTime": moment.isoformat(timespec="milliseconds"),
                **(json.loads(self._info) if self._info else {}),
            }
            self._lower = {name.lower(): name for name in self._attributes}
        return self._attributes

    def __getitem__(self, key: str) -> Any:
        attributes = self._all()
        return attributes[self._lower[key.lower()]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"JobEvent(type={self.type.name}, job={self.job_id}, cursor={self.cursor!r})"

    def __str__(self) -> str:
        from fetchwork.userlog import entry

        return entry(self)


class Reader:
    """One reader of the stream: knows how far it has come, and asks for what follows.

    ``job`` restricts it to jobs given by id ('42.0', '42', 42, or a list of those), ``log`` to the jobs whose
    UserLog is that path.
    """

    def __init__(self, *, after: str | None = None, job: Any = None, log: str | None = None) -> None:
        self.position: Cursor | None = None
        self._from_now = after == "now"
        if after is not None and not self._from_now:
            self.position = Cursor.parse(after)
        self._filter, self._params = _filter(job, log)

    @staticmethod
    def now() -> Steps[str]:
        """The cursor of this moment."""
        rows = yield Ask("SELECT horizon::text FROM fetchwork.event_window('0', 0, 0)")
        return str(Cursor(int(rows[0]["horizon"]), 0))

    def events(self, stop_after: float | None) -> Steps[None]:
        """Yield events as they come; ends as ``stop_after`` says, and can be called again to go on."""
        deadline = None if stop_after is None else time.monotonic() + stop_after
        pause = SHORTEST_PAUSE_S
        while True:
            events, more = yield from self._page()
            if events:
                yield Found(events)
                pause = SHORTEST_PAUSE_S
            if more:
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            yield Pause(pause if left is None else min(pause, left))
            pause = min(LONGEST_PAUSE_S, pause * 1.2)

    def _page(self) -> Steps[tuple[list[JobEvent], bool]]:
        if self._from_now:
            self.position = Cursor.parse((yield from self.now()))
            self._from_now = False
        start = self.position or Cursor(0, 0)
        # how far it goes and the events are of one snapshot; the first comes in any case
        # those of single jobs are few, and looked up by job
        most = PAGE if self._filter == "true" else None
        rows = yield Ask(
            "SELECT w.kept_xid::text, w.kept_id, w.until_xid::text, w.until_id, w.more, e.*"
            " FROM fetchwork.event_window(%s::xid8, %s, %s::integer) AS w LEFT JOIN LATERAL ("
            " SELECT xid::text::bigint AS xid, eventid, eventtypenumber, clusterid, procid, runid,"
            " extract(epoch FROM event_at)::double precision AS epoch, info::text AS info"
            " FROM fetchwork.events"
            " WHERE (xid, eventid) > (%s::xid8, %s) AND (xid, eventid) <= (w.until_xid, w.until_id)"
            f" AND {self._filter}"
            " ORDER BY events.xid, eventid"
            ") AS e ON true",
            [str(start.xid), start.event_id, most, str(start.xid), start.event_id, *self._params],
        )
        kept = Cursor(int(rows[0]["kept_xid"]), rows[0]["kept_id"])
        if self.position is not None and self.position < kept:
            raise CursorExpired(
                f"events behind cursor '{self.position}' are not kept any more: those up to '{kept}' were dropped;"
                f" allowed: read the jobs' state anew and go on after '{kept}'"
            )
        more = rows[0]["more"]
        until = Cursor(int(rows[0]["until_xid"]), rows[0]["until_id"])
        if rows[0]["eventid"] is None:
            # whatever lies below has been seen or is of other jobs; but never step back
            self.position = max(start, until)
            return [], more
        events = [
            JobEvent(
                xid=row["xid"],
                event_id=row["eventid"],
                type_number=row["eventtypenumber"],
                cluster=row["clusterid"],
                proc=row["procid"],
                run_id=row["runid"],
                epoch=row["epoch"],
                info=row["info"],
            )
            for row in rows
        ]
        self.position = until
        return events, more


def _filter(job: Any, log: str | None) -> tuple[str, list[Any]]:
    if log is not None:
        condition = (
            "clusterid IN (SELECT fetchwork.log_clusters(%s)) AND fetchwork.is_log_of(%s, clusterid, procid)"
        )
        return condition, [log, log]
    if job is None:
        return "true", []
    clusters: list[int] = []
    jobs: list[tuple[int, int]] = []
    for item in job if isinstance(job, list | tuple | set | frozenset) else [job]:
        found = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?", str(item).strip())
        if found is None:
            raise ValueError(f"job {item!r} is none; allowed: '42.0', or '42' for a whole cluster")
        if found[2] is None:
            clusters.append(int(found[1]))
        else:
            jobs.append((int(found[1]), int(found[2])))
    if not jobs:
        return "clusterid = ANY(%s)", [clusters]
    # the first condition, alone, can be looked up
    return (
        "clusterid = ANY(%s) AND (clusterid = ANY(%s) OR (clusterid, procid) IN"
        " (SELECT c, p FROM unnest(%s::integer[], %s::integer[]) AS named (c, p)))",
        [[*clusters, *(c for c, _ in jobs)], clusters, [c for c, _ in jobs], [p for _, p in jobs]],
    )


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
        from fetchwork.queue import Queue as OwnQueue

        # as HTCondor's submit makes it absolute: no link is followed
        self._path = str(Path(os.path.normpath(Path.cwd() / filename)))
        self._queue = queue or OwnQueue()
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
