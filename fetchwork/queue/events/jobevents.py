"""Events of jobs, with the interface of HTCondor's bindings, and their positions in the stream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from fetchwork.classad.bindings import JobEventLog, JobEventType
from fetchwork.codes import EventType
from fetchwork.errors import NotFound
from fetchwork.queue.events import logentry

Attributes: TypeAlias = dict[str, Any]

_CURSOR = re.compile(r"e(\d{1,19})\.(\d{1,19})")
#: the former form of cursors: a transaction and an event
_OLD_CURSOR = re.compile(r"\d{1,20}\.\d{1,19}")


#: after a restore, events have positions that are higher by at least this (put_events_behind.sql)
_JUMP = 2**32


class CursorExpired(NotFound):
    """Events after a cursor have expired, so some were missed; or the cursor is another database's."""


@dataclass(frozen=True, order=True)
class Cursor:
    """A position in the stream; as text ``eBATCH.EVENT``."""

    batch: int
    event_id: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read a cursor's text; raises ValueError."""
        match = _CURSOR.fullmatch(text.strip())
        if _OLD_CURSOR.fullmatch(text.strip()):
            raise ValueError(
                f"cursor {text!r} was made by an earlier fetchwork, with another order of events; read the"
                " jobs' state anew and go on after 'now'"
            )
        if match is None or int(match[1]) >= 2**63 or int(match[2]) >= 2**63:
            raise ValueError(
                f"{text!r} is not a cursor; allowed: the cursor of an event, such as 'e812.4071', or 'now'"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"e{self.batch}.{self.event_id}"

    def lies_before_move(self, later: Cursor) -> bool:
        """Whether the database was restored, or moved to another server, between the two cursors.

        Then a reader may get events of the last seconds before that again.
        """
        return later.batch - self.batch >= _JUMP


# HTCondor's classes of events: the values of MyType
MY_TYPES = {
    EventType.SUBMIT: "SubmitEvent",
    EventType.EXECUTE: "ExecuteEvent",
    EventType.EXECUTABLE_ERROR: "ExecutableErrorEvent",
    EventType.JOB_EVICTED: "JobEvictedEvent",
    EventType.JOB_TERMINATED: "JobTerminatedEvent",
    EventType.IMAGE_SIZE: "JobImageSizeEvent",
    EventType.GENERIC: "GenericEvent",
    EventType.JOB_ABORTED: "JobAbortedEvent",
    EventType.JOB_SUSPENDED: "JobSuspendedEvent",
    EventType.JOB_UNSUSPENDED: "JobUnsuspendedEvent",
    EventType.JOB_HELD: "JobHeldEvent",
    EventType.JOB_RELEASED: "JobReleaseEvent",
    EventType.CLUSTER_SUBMIT: "ClusterSubmitEvent",
    EventType.CLUSTER_REMOVE: "ClusterRemoveEvent",
    EventType.FACTORY_PAUSED: "FactoryPausedEvent",
    EventType.FACTORY_RESUMED: "FactoryResumedEvent",
}


class JobEvent(Mapping[str, Any]):
    """One event, with the properties of ``htcondor2.JobEvent``, its ``cursor`` and its ``run_id``.

    It is a mapping of the event's attributes, whose names ignore case. ``str`` of it is its entry in
    HTCondor's event log, without the line of dots that ends the entry.
    """

    __slots__ = (
        "_attributes",
        "_cluster",
        "_cursor",
        "_epoch",
        "_info",
        "_lower",
        "_proc",
        "_run_id",
        "_type_number",
    )

    def __init__(self, line: str) -> None:
        """``line``: batch, event id, type, cluster, proc, run or -1, seconds, perhaps JSON."""
        # parse only the fields that a reader of a million events needs of each
        batch, event_id, type_number, cluster, proc, self._run_id, self._epoch, *self._info = line.split(
            "\t", 7
        )
        self._cursor = f"e{batch}.{event_id}"
        self._type_number = int(type_number)
        self._cluster = int(cluster)
        self._proc = int(proc)
        self._attributes: Attributes | None = None
        self._lower: dict[str, str]

    @property
    def cursor(self) -> str:
        """Its position in the stream: ``events(after=...)`` continues after it."""
        return self._cursor

    @property
    def type_number(self) -> int:
        """The number of its type in HTCondor's numbering."""
        return self._type_number

    @property
    def cluster(self) -> int:
        """The job's cluster."""
        return self._cluster

    @property
    def proc(self) -> int:
        """The job's process."""
        return self._proc

    @property
    def run_id(self) -> int | None:
        """The run that it belongs to."""
        return int(self._run_id) if self._run_id != "-1" else None

    @property
    def epoch(self) -> float:
        """Its time in seconds, with a fraction."""
        return float(self._epoch)

    @property
    def type(self) -> JobEventType:
        """The ``JobEventType``."""
        return JobEventType(self.type_number)

    @property
    def timestamp(self) -> int:
        """Its time in whole seconds."""
        return int(self.epoch)

    @property
    def job(self) -> tuple[int, int]:
        """Cluster and process."""
        return self.cluster, self.proc

    @property
    def job_id(self) -> str:
        """The job, as '42.0'."""
        return f"{self.cluster}.{self.proc}"

    def _all(self) -> Attributes:
        # most readers use type and job only, so the attributes are made on first use
        if self._attributes is None:
            moment = datetime.fromtimestamp(self.epoch, UTC).astimezone().replace(tzinfo=None)
            info = json.loads(self._info[0]) if self._info else {}
            self._attributes = {
                "MyType": MY_TYPES.get(self.type_number, "GenericEvent"),
                "EventTypeNumber": self.type_number,
                "Cluster": self.cluster,
                "Proc": self.proc,
                "Subproc": 0,
                "EventTime": moment.isoformat(timespec="seconds"),
                **info,
                **logentry.derived(self.type_number, info),
            }
            self._lower = {name.lower(): name for name in self._attributes}
        return self._attributes

    def __getitem__(self, key: str) -> Any:
        attributes = self._all()
        if (name := self._lower.get(key.lower())) is None:
            raise KeyError(key)
        return attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"JobEvent(type={self.type.name}, job={self.job_id}, cursor={self.cursor!r})"

    def to_json(self) -> dict[str, Any]:
        """Its attributes in HTCondor's JSON form."""
        # an ad is as the database has it
        info = json.loads(self._info[0]) if self._info else {}
        return {name: info[name] if isinstance(info.get(name), dict) else self[name] for name in self}

    @property
    def log_entry(self) -> str:
        """Its whole entry in an event log."""
        return logentry.entry(self.type_number, self.job, self.epoch, self)

    def entry(self, *, xml: bool) -> str:
        """Its entry in an event log, in HTCondor's text form or as XML (``log_xml``)."""
        return logentry.xml_entry(self) if xml else self.log_entry

    def __str__(self) -> str:
        return self.log_entry.removesuffix("...\n")


class EventFile:
    """The events of a log whose jobs the database does not know, read by the bindings; it can be pickled."""

    def __init__(self, path: str) -> None:
        self._reader = JobEventLog(path)

    def wait(self, stop_after: float | None) -> None:
        """Wait for the next event at most this long, rounded up to whole seconds; None: for ever."""
        if stop_after is None:
            self._reader.events()
        else:
            self._reader.events(math.ceil(stop_after))

    def __next__(self) -> JobEvent:
        return cast(JobEvent, next(self._reader))
