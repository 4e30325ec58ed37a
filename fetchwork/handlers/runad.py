"""The job ad of a run, as a starter's hooks send it back: the run's key, and its report."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fetchwork.errors import ClassAdError, one_line
from fetchwork.handlers.starterad import Reader, StarterAd
from fetchwork.hook.jobtail import MAX_TAIL
from fetchwork.sandbox.failure import TransferFailure

_NUMBERS = {
    "JobPid",
    "JobStartDate",
    "NumPids",
    "ImageSize",
    "ResidentSetSize",
    "ProportionalSetSizeKb",
    "MemoryUsage",
    "DiskUsage",
    "ScratchDirFileCount",
    "RemoteUserCpu",
    "RemoteSysCpu",
    "CPUsUsage",
    "GPUsAverageUsage",
    "BlockReadKbytes",
    "BlockWriteKbytes",
    "BlockReads",
    "BlockWrites",
    "JobDuration",
    "ExitCode",
    "ExitSignal",
    "VacateReasonCode",
    "VacateReasonSubCode",
    "DeferralTime",
}
_INTEGERS = {"JobPid", "JobStartDate", "NumPids", "ExitCode", "ExitSignal"}
_TEXTS = {"JobState", "ExitReason", "VacateReason"}
_TRUTHS = {"ExitBySignal"}
_KEY = ("FetchWorkRunId", "FetchWorkToken")
_PARKED = "FetchWorkParked"
_FAILURE = "FetchWorkTransferFailure"
_UNUSED = "FetchWorkCheckpointUnused"
#: the name of a directory of staged files
DIRECTORY = re.compile(r"[0-9]{20}-[0-9a-f]{32}")


#: attributes that a starter has added to the job ad, and the ends of the job's output, by stream
Report: TypeAlias = dict[str, int | float | str | bool | dict[str, str]]


_READER = Reader(
    {
        *_NUMBERS, *_TEXTS, *_TRUTHS, *_KEY, "FetchWorkHasPolicy", "FetchWorkStdout", "FetchWorkStderr",
        _PARKED, _FAILURE, _UNUSED,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunKey:
    """A run's number and its secret: they identify the ad of a run."""

    run_id: int
    token: str

    def __repr__(self) -> str:
        return f"<run {self.run_id}>"


def read_starter_ad(body: bytes) -> StarterAd:
    """Return the attributes that matter of the ad that a starter hook sends."""
    return _READER.read(body)


def run_key(ad: Mapping[str, object]) -> RunKey:
    """Return the key of the run that an ad names; ClassAdError if it is not one of fetchwork's."""
    run_id, token = ad.get(_KEY[0]), ad.get(_KEY[1])
    if type(run_id) is not int or not isinstance(token, str):
        raise ClassAdError("the job ad has no FetchWorkRunId and FetchWorkToken: not a job of fetchwork")
    try:
        return RunKey(run_id, str(uuid.UUID(token)))
    except ValueError:
        raise ClassAdError("FetchWorkToken is not a token") from None


def report(ad: Mapping[str, object]) -> Report:
    """Return the attributes that a starter has added to the job ad: the job's state, its usage, its end.

    The hook runs as the job's user, who could send anything: only these attributes, and only values of
    their types, are taken.
    """
    added: Report = {}
    for name in _NUMBERS & set(ad):
        number = ad[name]
        if type(number) is float and (name in _INTEGERS or not math.isfinite(number)):
            continue
        if type(number) is int and name in _INTEGERS and not -(2**31) <= number < 2**31:
            continue
        if type(number) is int or type(number) is float:
            added[name] = number
    resident_kib = added.get("ResidentSetSize")
    if "MemoryUsage" in ad and isinstance(resident_kib, int | float):
        # the starter writes it as this expression of ResidentSetSize
        added["MemoryUsage"] = (int(resident_kib) + 1023) // 1024
    for name in _TEXTS:
        value = ad.get(name)
        if isinstance(value, str) and value:
            added[name] = value[:1000]
    for name in _TRUTHS:
        value = ad.get(name)
        if type(value) is bool:
            added[name] = value
    output = {
        stream: value[:MAX_TAIL]
        for stream, name in (("stdout", "FetchWorkStdout"), ("stderr", "FetchWorkStderr"))
        if isinstance(value := ad.get(name), str) and value
    }
    if output:
        added["FetchWorkOutput"] = output
    return added


def parked(ad: Mapping[str, object]) -> str | None:
    """The directory in which JOB_EXIT has staged the job's outputs, None if it has staged nothing."""
    name = ad.get(_PARKED)
    if name is None:
        return None
    if not isinstance(name, str) or not DIRECTORY.fullmatch(name):
        raise ClassAdError(f"{_PARKED} is not the name of a directory")
    return name


def transfer_failure(ad: Mapping[str, object]) -> TransferFailure | None:
    """Why the job's outputs could not be transferred, if JOB_EXIT says so."""
    text = ad.get(_FAILURE)
    if not isinstance(text, str):
        return None
    found = re.fullmatch(r"(6|12|33|36) (-?[0-9]{1,9}) (.+)", text)
    if found is None:
        raise ClassAdError(f"{_FAILURE} is not a hold code, a subcode and a reason")
    return TransferFailure(int(found[1]), int(found[2]), found[3])


def unused_checkpoint(ad: Mapping[str, object]) -> str | None:
    """Why the last saved checkpoint is not used, if PREPARE_JOB says so."""
    text = ad.get(_UNUSED)
    return one_line(text, 400) if isinstance(text, str) else None


def job_pid(update: Report) -> int:
    """The pid of the job's process, 0 if the report does not have it."""
    pid = update.get("JobPid", 0)
    return pid if isinstance(pid, int) else 0


def slot_name(starter_slot: str, claimed_slot: str) -> str | None:
    """The slot that a starter is on, "slot1_2@host", from its ``_CONDOR_SLOT`` and the slot that fetched."""
    if not starter_slot:
        return None
    _, at, rest = claimed_slot.partition("@")
    return starter_slot if "@" in starter_slot else f"{starter_slot}{at}{rest}"
