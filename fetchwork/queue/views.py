"""The views that the Python API reads, as ClassAds: which column is which attribute."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fetchwork.classad.constraint import Column, ColumnType

Json = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A view with a row for each ad: some attributes are columns, the others are in the column ``ad``."""

    name: str
    my_type: str
    attributes: Mapping[str, ColumnType]
    #: what makes a page follow the one before it
    order: Sequence[str]
    #: the function that tells where a piece of so many rows ends, and where it begins to count
    edge: str
    beginning: Sequence[Any]
    descending: bool = False

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """The attributes' names by their columns."""
        return {name.lower(): name for name in self.attributes}

    def columns(self) -> dict[str, Column]:
        """The columns by the lower-case name of their attribute, for constraints."""
        return {name.lower(): Column(name.lower(), kind) for name, kind in self.attributes.items()}

    def ad(self, row: Mapping[str, Any]) -> Json:
        """The whole ad of a row of ``SELECT *``: what a column says beats what was submitted."""
        names = self._names
        inner: Mapping[str, Any] = row["ad"] or {}
        ad = {name: value for name, value in inner.items() if name.lower() not in names}
        for column, value in row.items():
            if value is not None and column in names:
                ad[names[column]] = value
        ad["MyType"] = self.my_type
        return ad


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
}

JOBS = View(
    "jobs",
    "Job",
    {
        **_COMMON,
        "HoldReason": "string",
        "HoldReasonCode": "integer",
        "HoldReasonSubCode": "integer",
        "RemoteHost": "string",
    },
    order=("clusterid", "procid"),
    edge="job_edge",
    beginning=(-1, -1),
)

HISTORY = View(
    "history",
    "Job",
    {
        **_COMMON,
        "CompletionDate": "integer",
        "ExitBySignal": "boolean",
        "ExitCode": "integer",
        "ExitSignal": "integer",
        "LastRemoteHost": "string",
    },
    order=("completed_at", "clusterid", "procid"),
    edge="history_edge",
    beginning=("infinity",),
    descending=True,
)

# HTCondor calls the record of a run an epoch
RUNS = View(
    "runs",
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
    },
    order=("runid",),
    edge="run_edge",
    beginning=(2**63 - 1,),
    descending=True,
)
