"""Tables of the pages: the columns that a request chooses, and the order of the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request

from fetchwork.page.problem import Problem
from fetchwork.queue.reading.views import Json, Row

#: attributes of people's own choice beside a table's columns
MOST_OWN = 20


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the attributes that it shows, and the form of a cell in ``cells.html``.

    Rows are sorted by the first attribute that a row has; those of the form "job" by all.
    """

    head: str
    of: tuple[str, ...]
    form: str = "text"
    #: shown if the request chooses no columns
    usual: bool = True

    @property
    def is_number(self) -> bool:
        """Whether cells stand at the right."""
        return self.form in ("number", "jobs", "duration", "real", "hours")

    def value(self, ad: Row) -> object:
        """The value of a cell; None if the ad has none. Attributes' names are in any case, as in ClassAds."""
        if self.form == "job":
            return tuple(ad[name] for name in self.of)
        for name in self.of:
            if ad.get(name) not in (None, ""):
                return ad[name]
        (wanted, *_) = self.of
        return next((value for name, value in ad.items() if name.lower() == wanted.lower()), None)


_JOB = Column("Job", ("ClusterId", "ProcId"), "job")
_OWNER = Column("Owner", ("Owner",), "owner")
_COMMAND = Column("Command", ("Cmd",), "command")
_MORE: Final = {
    "Batch": Column("Batch", ("JobBatchName",), usual=False),
    "Queue": Column("Queue", ("FetchWorkQueue",), usual=False),
    "Cpus": Column("Cpus", ("RequestCpus",), "number", usual=False),
    "Memory": Column("Memory (MiB)", ("RequestMemory",), "number", usual=False),
    "MemoryUsed": Column("Memory used (MiB)", ("MemoryUsage",), "number", usual=False),
    "Starts": Column("Starts", ("NumJobStarts",), "number", usual=False),
}
#: table -> its columns by the names that addresses have
TABLES: Final[dict[str, dict[str, Column]]] = {
    "jobs": {
        "Job": _JOB,
        "Owner": _OWNER,
        "State": Column("State", ("JobStatus",), "state"),
        "Submitted": Column("Submitted", ("QDate",), "when"),
        "Prio": Column("Prio", ("JobPrio",), "number"),
        "Slot": Column("Slot or reason", ("RemoteHost", "HoldReason", "LastReason")),
        "Command": _COMMAND,
        "Since": Column("In its state since", ("EnteredCurrentStatus",), "when", usual=False),
        **_MORE,
    },
    "history": {
        "Job": _JOB,
        "Owner": _OWNER,
        "End": Column("End", ("ExitSignal", "ExitCode", "JobStatus"), "end"),
        "Ended": Column("Ended", ("EnteredCurrentStatus",), "when"),
        "Wall": Column("Wall time", ("RemoteWallClockTime",), "duration"),
        "Slot": Column("Slot", ("LastRemoteHost",)),
        "Command": _COMMAND,
        "Submitted": Column("Submitted", ("QDate",), "when", usual=False),
        "Cpu": Column("Cpu time", ("RemoteUserCpu",), "duration", usual=False),
        **_MORE,
    },
    "slots": {
        "Slot": Column("Slot", ("Name",)),
        "State": Column("State", ("State",)),
        "Activity": Column("Activity", ("Activity",)),
        "Cpus": Column("Cpus", ("Cpus",), "number"),
        "Memory": Column("Memory (MiB)", ("Memory",), "number"),
        "Job": Column("Job", ("JobId",), "slotjob"),
        "Answer": Column("Last answer", ("FetchWorkLastAnswer",)),
        "Asked": Column("Asked", ("LastFetchWorkSpawned",), "when"),
        "GPUs": Column("GPUs", ("GPUs",), "number", usual=False),
        "Disk": Column("Disk (KiB)", ("Disk",), "number", usual=False),
        "Host": Column("Host", ("Machine",), "host", usual=False),
    },
    "hosts": {
        "Host": Column("Host", ("Machine",), "host"),
        "Alerts": Column("Alerts", ("Alerts",)),
        "Slots": Column("Slots", ("Slots",), "number"),
        "Runs": Column("Runs now", ("Runs",), "number"),
        "BadStarts": Column("Bad starts in a row", ("BadStarts",), "number"),
        "Heard": Column("Heard from", ("LastHeardFrom",), "when"),
        "Agent": Column("Agent", ("AgentVersion",)),
        "Reason": Column("Bad starts' reason", ("BadReason",), usual=False),
    },
    "runs": {
        "Job": Column("Job", ("jobid",), "jobid"),
        "Owner": Column("Owner", ("owner",), "ownername"),
        "Slot": Column("Slot", ("remotehost",)),
        "State": Column("State", ("state",)),
        "Since": Column("Since", ("at",), "when"),
    },
    "owners": {
        "Owner": Column("Owner", ("owner",), "ownername"),
        "Idle": Column("Idle", ("idle",), "jobs"),
        "Running": Column("Running", ("running",), "jobs"),
        "Held": Column("Held", ("held",), "jobs"),
    },
    "queues": {
        "Queue": Column("Queue", ("Name",), "queue"),
        "State": Column("State", ("QueueState",)),
        "Idle": Column("Idle", ("IdleJobs",), "jobs"),
        "Running": Column("Running", ("RunningJobs",), "jobs"),
        "Held": Column("Held", ("HeldJobs",), "jobs"),
        "Most": Column("Most running", ("MaxRunning",), "number"),
    },
    "submitters": {
        "Submitter": Column("Submitter", ("Name",)),
        "Priority": Column("Effective priority", ("Priority",), "real"),
        "Factor": Column("Factor", ("PriorityFactor",), "real"),
        "Running": Column("Running", ("RunningJobs",), "number"),
        "Usage": Column("Usage (h)", ("AccumulatedUsage",), "hours"),
    },
}
#: tables whose rows are ads, and so have attributes beside their columns
_OF_ADS = ("jobs", "history", "slots")


class Table:
    """A table as a request wants it, by its parameters ``sort`` and ``column``, behind a prefix if any.

    ``columns`` are shown, ``choices`` can be chosen; ``sort`` is the name of a column, None for the table's
    own order, ``down`` from the greatest value to the least. Raises Problem.
    """

    def __init__(self, request: Request, name: str, prefix: str = "") -> None:
        self._path = request.url.path
        self._given = [item for item in request.query_params.multi_items() if item[0] != "after"]
        self._sort_name, self.column_name = f"{prefix}sort", f"{prefix}column"
        self.choices = TABLES[name]
        self.of_ads = name in _OF_ADS
        self.columns = self._chosen(request)
        wanted = request.query_params.get(self._sort_name, "")
        self.down = wanted.startswith("-")
        self.sort = wanted.removeprefix("-") or None
        if self.sort is not None and self.sort not in self.choices | self.columns:
            names = ", ".join(self.choices | self.columns)
            raise Problem(400, "bad request", f"{self._sort_name} is '{wanted[:100]}'; allowed: {names}")

    def _chosen(self, request: Request) -> dict[str, Column]:
        wanted = [
            word
            for text in request.query_params.getlist(self.column_name)
            for word in re.split(r"[\s,]+", text)
            if word
        ]
        own = [word for word in dict.fromkeys(wanted) if word not in self.choices]
        if own and (len(own) > MOST_OWN or not self.of_ads or not all(map(_is_attribute, own))):
            raise Problem(
                400,
                "bad request",
                f"{self.column_name} is '{own[0][:100]}'; allowed: {', '.join(self.choices)}"
                + (f", and {MOST_OWN} names of attributes" if self.of_ads else ""),
            )
        chosen = {name: each for name, each in self.choices.items() if name in wanted}
        chosen |= {name: Column(name, (name,)) for name in own}
        return chosen or {name: each for name, each in self.choices.items() if each.usual}

    @property
    def own(self) -> list[str]:
        """The attributes that the request chose beside the table's columns."""
        return [name for name in self.columns if name not in self.choices]

    @property
    def sorted_by(self) -> Column | None:
        """The column that the rows are sorted by."""
        return None if self.sort is None else (self.choices | self.columns)[self.sort]

    def direction(self, name: str) -> str | None:
        """The value of a heading's ``aria-sort``."""
        return ("descending" if self.down else "ascending") if name == self.sort else None

    def link(self, name: str) -> str:
        """The address of the same rows, sorted by a column; the other way round if they are already."""
        again = name == self.sort and not self.down
        return (
            self._path + "?" + urlencode([*self.kept(self._sort_name), (self._sort_name, "-" * again + name)])
        )

    def where(self, **changed: str) -> str:
        """The address with another filter."""
        return self._path + "?" + urlencode([*self.kept(*changed), *changed.items()])

    def kept(self, *without: str) -> list[tuple[str, str]]:
        """The parameters of the request that a form or a link keeps, for its own are other ones."""
        return [(name, value) for name, value in self._given if name not in without and value]

    def ordered(self, rows: Iterable[Json]) -> list[Json]:
        """The rows in this table's order."""
        column = self.sorted_by
        return list(rows) if column is None else ordered(rows, column, down=self.down)


def ordered(rows: Iterable[Json], column: Column, *, down: bool) -> list[Json]:
    """Rows by a column; those without a value are last in both directions."""
    present: list[tuple[tuple[int, object], Json]] = []
    absent: list[Json] = []
    for row in rows:
        value = column.value(row)
        if value is None:
            absent.append(row)
        else:
            present.append((_rank(value), row))
    present.sort(key=lambda pair: pair[0], reverse=down)
    return [row for _, row in present] + absent


def _rank(value: object) -> tuple[int, object]:
    # values of one kind are compared with each other alone
    if isinstance(value, bool | int | float):
        return 0, value
    if isinstance(value, tuple):
        return 1, value
    return 2, natural(str(value))


def natural(text: str) -> list[tuple[int, str]]:
    """The sort key of a name by its words and numbers: slot2 before slot10."""
    return [(int(number or 0), word) for word, number in re.findall("([^0-9]*)([0-9]*)", text.lower())]


def _is_attribute(name: str) -> bool:
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,99}", name) is not None
