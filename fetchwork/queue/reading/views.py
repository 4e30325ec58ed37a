"""The views that the Python API reads as ClassAds, and the attributes of their columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fetchwork.db.calls import reading
from fetchwork.db.calls.call import Call, Record
from fetchwork.queue.constraints.source import Column, ColumnType, Form, form_of, sql_of

#: an ad in HTCondor's JSON form
Json: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, Any]
#: values of the first columns of a view's order
Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """A view with a row for each ad: some attributes are columns, the column ``ad`` has the others."""

    source: str
    my_type: str
    attributes: Mapping[str, ColumnType]
    #: the key by which pages follow each other
    order: Sequence[str]
    #: attributes without a column of their name, and the SQL of their value
    expressions: Mapping[str, str] = field(default_factory=dict)
    #: the call that finds the end of a piece with so many rows after a key; and the first key. None for a
    #: view that is never long
    edge: Callable[[Key, int], Call[Record | None]] | None = None
    beginning: Key = ()
    descending: bool = False
    #: the tables that hold the rows of a long view
    tables: Sequence[str] = ()
    #: the columns of the ad's other attributes; a later one overrides an earlier one
    layers: Sequence[str] = ("ad",)
    #: the compositions of composed attributes, which are never NULL, from {Attribute} and {database}
    compositions: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The attributes' names by their columns."""
        return {name.lower(): name for name in self.attributes}

    @functools.cached_property
    def inner(self) -> str:
        """The SQL of the ad's attributes without a column."""
        if len(self.layers) == 1:
            return self.layers[0]
        return "(" + " || ".join(f"coalesce({layer}, '{{}}')" for layer in self.layers) + ")"

    def columns(self) -> dict[str, Column]:
        """The columns by the lower-case name of their attribute, for constraints."""
        return {
            name.lower(): Column(
                self.expressions.get(name, name.lower()), attribute_type, 45 if name in _SMALL else 63
            )
            for name, attribute_type in self.attributes.items()
        }

    def forms(self, database: str) -> dict[str, Form]:
        """The forms of the composed attributes in the database with this name, for constraints."""
        return {name.lower(): form_of(text, database) for name, text in self.compositions.items()}

    def selected(self, key: str) -> str:
        """An attribute, by its lower-case name, as an item of a SELECT list."""
        expression = self.expressions.get(self.names[key])
        return key if expression is None else f"{expression} AS {key}"

    @functools.cached_property
    def all_columns(self) -> str:
        """The SELECT list for whole ads."""
        return ", ".join(dict.fromkeys([*self.order, *map(self.selected, self.names), f"{self.inner} AS ad"]))

    def ad(self, row: Row) -> Json:
        """The ad of a row; columns override the submitted attributes."""
        names = self.names
        inner: Row = row["ad"] or {}
        ad = {name: value for name, value in inner.items() if name.lower() not in names}
        for column, value in row.items():
            if value is not None and column in names:
                ad[names[column]] = value
        ad["MyType"] = self.my_type
        return ad


# four-byte integers, and seconds of a PostgreSQL timestamp or interval
_SMALL = frozenset(
    (
        "ClusterId", "ProcId", "JobStatus", "JobPrio", "QDate", "EnteredCurrentStatus", "JobStartDate",
        "JobCurrentStartDate", "NumJobStarts", "NumJobCompletions", "NumHolds", "NumNotStarted",
        "NumEvicted", "NumLost", "AutoClusterId", "TotalSubmitProcs", "CurrentHosts", "NumRestarts",
        "NumShadowStarts", "NumJobMatches", "JobRunCount", "JobCurrentStartExecutingDate",
        "FirstJobMatchDate", "InitialWaitDuration", "HoldReasonCode", "HoldReasonSubCode", "ServerTime",
        "CompletionDate", "ExitCode", "ExitSignal", "ExitStatus", "JobFinishedHookDone", "EpochWriteDate",
    )
)  # fmt: skip

_COMMON: dict[str, ColumnType] = {
    "ClusterId": "integer",
    "ProcId": "integer",
    "Owner": "string",
    "FetchWorkQueue": "string",
    "JobStatus": "integer",
    "JobPrio": "integer",
    "QDate": "integer",
    "EnteredCurrentStatus": "integer",
    "JobStartDate": "integer",
    "JobCurrentStartDate": "integer",
    "NumJobStarts": "integer",
    "NumJobCompletions": "integer",
    "NumHolds": "integer",
    "NumNotStarted": "integer",
    "NumEvicted": "integer",
    "NumLost": "integer",
    "LastReason": "string",
    "RemoteWallClockTime": "real",
    "RemoteUserCpu": "real",
    "RemoteSysCpu": "real",
    "RunId": "integer",
    "AutoClusterId": "integer",
    "User": "string",
    "GlobalJobId": "string",
    "TotalSubmitProcs": "integer",
    "CurrentHosts": "integer",
    "NumRestarts": "integer",
    "NumShadowStarts": "integer",
    "NumJobMatches": "integer",
    "JobRunCount": "integer",
    "JobCurrentStartExecutingDate": "integer",
    "CumulativeRemoteUserCpu": "real",
    "CumulativeRemoteSysCpu": "real",
    "CumulativeSlotTime": "real",
    "RemoveReason": "string",
    "ImageSize_RAW": "integer",
    "ResidentSetSize_RAW": "integer",
    "MachineAttrCpus0": "integer",
    "FirstJobMatchDate": "integer",
    "InitialWaitDuration": "integer",
}

_COMPOSED = {"User": "{Owner}@{database}", "GlobalJobId": "{database}#{ClusterId}.{ProcId}#{QDate}"}
# attributes for which HTCondor has several names, and attributes that follow from other columns
_DERIVED = {
    **{name: sql_of(composition) for name, composition in _COMPOSED.items()},
    "CurrentHosts": "CASE WHEN jobstatus IN (2, 7) THEN 1 ELSE 0 END",
    "NumRestarts": "greatest(numjobstarts - 1, 0)",
    "NumShadowStarts": "nullif(numjobstarts, 0)",
    "NumJobMatches": "nullif(numjobstarts, 0)",
    "JobRunCount": "nullif(numjobstarts, 0)",
    "JobCurrentStartExecutingDate": "jobcurrentstartdate",
    "CumulativeRemoteUserCpu": "remoteusercpu",
    "CumulativeRemoteSysCpu": "remotesyscpu",
    "CumulativeSlotTime": "remotewallclocktime",
    "FirstJobMatchDate": "jobstartdate",
    "InitialWaitDuration": "jobstartdate - qdate",
    # a schedd rounds the attributes with these names without _RAW
    "ImageSize_RAW": "coalesce((facts ->> 'ImageSize')::bigint, 0)",
    "ResidentSetSize_RAW": "(facts ->> 'ResidentSetSize')::bigint",
    "MachineAttrCpus0": "(facts ->> 'CpusProvisioned')::float8::bigint",
}

_JOB_LAYERS = ("defaults", "cluster_ad", "own_ad", "facts")

JOBS = View(
    "fetchwork.jobs",
    "Job",
    {
        **_COMMON,
        "HoldReason": "string",
        "HoldReasonCode": "integer",
        "HoldReasonSubCode": "integer",
        "RemoteHost": "string",
        "ServerTime": "integer",
    },
    order=("clusterid", "procid"),
    expressions={**_DERIVED, "ServerTime": "extract(epoch FROM now())::bigint"},
    edge=lambda key, n: reading.job_edge(cluster=key[0], proc=key[1], n=n),
    beginning=(-1, -1),
    tables=("fetchwork.job",),
    layers=_JOB_LAYERS,
    compositions=_COMPOSED,
)

HISTORY = View(
    "fetchwork.history",
    "Job",
    {
        **_COMMON,
        "CompletionDate": "integer",
        "ExitBySignal": "boolean",
        "ExitCode": "integer",
        "ExitSignal": "integer",
        "ExitStatus": "integer",
        "LastRemoteHost": "string",
        "JobFinishedHookDone": "integer",
    },
    order=("completed_at", "clusterid", "procid"),
    expressions={
        **_DERIVED,
        "ExitStatus": "coalesce(exitcode, 0)",
        "JobFinishedHookDone": "enteredcurrentstatus",
    },
    edge=lambda key, n: reading.history_edge(before=key[0], cluster=key[1], proc=key[2], n=n),
    beginning=("infinity", 2**31 - 1, 2**31 - 1),
    tables=("fetchwork.job_history",),
    descending=True,
    layers=_JOB_LAYERS,
    compositions=_COMPOSED,
)


def epoch(column: str) -> str:
    """The SQL of a column's time in seconds."""
    return f"extract(epoch FROM {column})::bigint"


# HTCondor calls the record of a run an epoch
RUNS = View(
    "fetchwork.runs",
    "Job",
    {
        "ClusterId": "integer",
        "ProcId": "integer",
        "Owner": "string",
        "RunId": "integer",
        "RemoteHost": "string",
        "Host": "string",
        "State": "string",
        "Outcome": "string",
        "Reason": "string",
        "JobPid": "integer",
        "ExitCode": "integer",
        "ExitSignal": "integer",
        "FetchWorkChain": "integer",
        "JobCurrentStartDate": "integer",
        "JobCurrentStartExecutingDate": "integer",
        "EpochWriteDate": "integer",
    },
    order=("runid",),
    expressions={
        "FetchWorkChain": "chain",
        "JobCurrentStartDate": epoch("claimed_at"),
        "JobCurrentStartExecutingDate": epoch("started_at"),
        "EpochWriteDate": epoch("ended_at"),
    },
    edge=lambda key, n: reading.run_edge(before=key[0], n=n),
    beginning=(2**63 - 1,),
    tables=("fetchwork.run", "fetchwork.run_history"),
    descending=True,
    # a run's ad includes its job's attributes, like HTCondor's epochs
    layers=("job_ad", "ad"),
)

SLOTS = View(
    "fetchwork.slots",
    "Machine",
    {
        "Name": "string",
        "Machine": "string",
        "State": "string",
        "Activity": "string",
        "SlotType": "string",
        "Cpus": "real",
        "Memory": "integer",
        "Disk": "integer",
        "GPUs": "integer",
        "JobId": "string",
        "RemoteOwner": "string",
        "RunId": "integer",
        "LastFetchWorkSpawned": "integer",
        "FetchWorkLastAnswer": "string",
        "FetchWorkQueues": "string",
    },
    order=("machine", "name"),
    expressions={
        "LastFetchWorkSpawned": epoch("last_fetch_at"),
        "FetchWorkLastAnswer": "last_answer",
        "FetchWorkQueues": "array_to_string(fetchworkqueues, ', ')",
    },
)
