"""Entries of HTCondor's job event log, made from events, and the appending of entries to a log.

The format is HTCondor's own text form with ISO dates in local time, which condor_wait, condor_watch_q and
``JobEventLog`` read.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

from fetchwork.classad.xmlform import xml_record
from fetchwork.codes import EventType

#: the attributes of an event
Event: TypeAlias = Mapping[str, Any]


#: the last line of an entry, in HTCondor's text form or in XML
_END = re.compile(rb"^(?:\.\.\.|</c>)\n", re.MULTILINE)
#: the beginning of an entry, or a part of it; after a power cut zeros may be in its place
_BEGINS = re.compile(rb"\0|\d{1,3}\Z|\d{3} (?:\Z|\()|<(?:\Z|c)")
#: attributes of the database from which attributes of HTCondor's are derived
_OURS = frozenset({"RunUserCpu", "RunSysCpu", "TotalUserCpu", "TotalSysCpu", "RunSeconds"})


#: errors of writing a log that may pass; any other error is permanent
FOR_NOW = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENFILE}
)


#: the most bytes of a log's end that are searched for existing entries
TAIL_BYTES = 64 * 1024 * 1024


def append(descriptor: int, data: bytes) -> None:
    """Append entries to a log and sync it to disk: all entries, or none if it raises OSError."""
    size = os.fstat(descriptor).st_size
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fdatasync(descriptor)
    except OSError:
        # no other process has appended meanwhile
        if written and os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """The entries in a part of a log, in both forms, and the incomplete entry after them, or b""."""
    found = []
    at = 0
    for end in _END.finditer(data):
        found.append(data[at : end.end()])
        at = end.end()
    cut = data[at:]
    return found, cut if _BEGINS.match(cut) else b""


def derived(type_number: int, info: Event) -> dict[str, object]:
    """HTCondor's attributes that follow from the database's attributes of an event."""
    if type_number not in _DERIVED:
        return {}
    return _DERIVED[type_number](info)


def _of_submit(info: Event) -> dict[str, object]:
    return {"SubmitHost": _address(_text(info, "SubmitHost"))}


def _of_execute(info: Event) -> dict[str, object]:
    more: dict[str, object] = {"ExecuteHost": _address(_text(info, "ExecuteHost"))}
    if props := info.get("ExecuteProps"):
        from fetchwork.classad.jsonform import from_json

        more["ExecuteProps"] = from_json(props)
    return more


def _of_eviction(info: Event) -> dict[str, object]:
    return {
        "RunRemoteUsage": _usage_of(info.get("RunUserCpu"), info.get("RunSysCpu")),
        "RunLocalUsage": _usage_of(0, 0),
        **{name: _number(info, name) for name in ("SentBytes", "ReceivedBytes")},
    }


def _of_termination(info: Event) -> dict[str, object]:
    run = _of_eviction(info)
    total = run["RunRemoteUsage"]
    if "TotalUserCpu" in info:
        total = _usage_of(info["TotalUserCpu"], info.get("TotalSysCpu"))
    seconds = info.get("RunSeconds")
    return {
        **run,
        "TotalRemoteUsage": total,
        "TotalLocalUsage": run["RunLocalUsage"],
        **{name: _number(info, name) for name in ("TotalSentBytes", "TotalReceivedBytes")},
        **({"TimeExecuteUsage": int(seconds)} if isinstance(seconds, int | float) else {}),
    }


def _usage_of(user_s: object, system_s: object) -> str:
    return f"Usr {_days(user_s)}, Sys {_days(system_s)}"


_DERIVED = {
    EventType.SUBMIT: _of_submit,
    EventType.EXECUTE: _of_execute,
    EventType.JOB_EVICTED: _of_eviction,
    EventType.JOB_TERMINATED: _of_termination,
    EventType.CLUSTER_SUBMIT: _of_submit,
}


def entry(type_number: int, job: tuple[int, int], epoch: float, event: Event) -> str:
    """An event (its attributes) as an entry of an event log, including its last line ``...``."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch))
    body = _BODIES.get(type_number, _generic)(event)
    return f"{type_number:03} ({job[0]:03}.{job[1]:03}.000) {moment} {body}...\n"


def xml_entry(event: Event) -> str:
    """An event (its attributes) as an entry of an event log in XML (``log_xml``)."""
    return xml_record((name, _item(value)) for name, value in event.items() if name not in _OURS) + "\n"


def _item(value: object) -> object:
    """A value in HTCondor's JSON form."""
    if isinstance(value, str | int | float | list) or value is None:
        return value
    from fetchwork.classad.jsonform import to_json

    return to_json(value)  # type: ignore[arg-type]  # any other value is an ad


def _text(event: Event, name: str, default: str = "") -> str:
    # a line break in a reason would end the entry, or forge another
    return " ".join(str(event.get(name, default)).split())


def _submit(event: Event, what: str = "Job") -> str:
    notes = filter(None, (_text(event, "LogNotes"), _text(event, "UserNotes")))
    return f"{what} submitted from host: {_text(event, 'SubmitHost')}\n" + "".join(
        f"    {n}\n" for n in notes
    )


def _execute(event: Event) -> str:
    slot = _text(event, "SlotName")
    props = event.get("ExecuteProps") or {}
    lines = [f"SlotName: {slot}"] if slot else []
    lines += [f"{name} = {value}" for name, value in props.items() if isinstance(value, int | float)]
    return f"Job executing on host: {_text(event, 'ExecuteHost')}\n" + "".join(
        f"\t{line}\n" for line in lines
    )


def _evicted(event: Event) -> str:
    again = bool(event.get("TerminatedAndRequeued", False))
    first = "(0) Job terminated and was requeued" if again else "(0) CPU times"
    lines = [f"\t{first}", *_usage(event, ("Run",)), *_bytes(event, {"Run": ""})]
    if again:
        lines += _ending(event)
    if reason := _text(event, "Reason"):
        lines.append(f"\t{reason}")
    lines += _resources(event)
    return "Job was evicted.\n" + "".join(f"{line}\n" for line in lines)


def _terminated(event: Event) -> str:
    scopes = ("Run", "Total")
    lines = [
        *_ending(event),
        *_usage(event, scopes),
        *_bytes(event, {"Run": "", "Total": "Total"}),
        *_resources(event),
    ]
    if "EventTime" in event:
        signal = event.get("TerminatedBySignal")
        how = f"exit-code {int(event.get('ReturnValue') or 0)}" if signal is None else f"signal {int(signal)}"
        lines += ["", f"\tJob terminated of its own accord at {event['EventTime']} with {how}."]
    return "Job terminated.\n" + "".join(f"{line}\n" for line in lines)


_RESOURCES = (("Cpus", "Cpus"), ("Disk (KB)", "Disk"), ("GPUs", "GPUs"), ("Memory (MB)", "Memory"))


def _resources(event: Event) -> list[str]:
    """The table of resources that the job used, requested and was allocated, as far as they are known."""
    rows = [
        (title, *(_amount(event, name) for name in (f"{tag}Usage", f"Request{tag}", tag)))
        for title, tag in _RESOURCES
        if f"Request{tag}" in event
    ]
    if "TimeExecuteUsage" in event:
        rows.append(("TimeExecute (s)", _amount(event, "TimeExecuteUsage"), "", ""))
    if not rows:
        return []
    heading = f"\t{'Partitionable Resources':<23} : {'Usage':>8} {'Request':>8} {'Allocated':>9}"
    return [
        heading,
        *(f"\t   {title:<20} : {used:>8} {asked:>8} {had:>9}" for title, used, asked, had in rows),
    ]


def _amount(event: Event, name: str) -> str:
    value = event.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _ending(event: Event) -> list[str]:
    if event.get("TerminatedBySignal") is None:
        return [f"\t(1) Normal termination (return value {int(event.get('ReturnValue') or 0)})"]
    return [f"\t(0) Abnormal termination (signal {int(event['TerminatedBySignal'])})", "\t(0) No core file"]


def _usage(event: Event, scopes: tuple[str, ...]) -> list[str]:
    return [
        f"\t\t{event.get(f'{scope}{where}Usage', '')}  -  {scope} {where} Usage"
        for scope in scopes
        for where in ("Remote", "Local")
    ]


def _bytes(event: Event, scopes: dict[str, str]) -> list[str]:
    return [
        f"\t{_number(event, f'{prefix}{way}Bytes'):.0f}  -  {scope} Bytes {way} By Job"
        for scope, prefix in scopes.items()
        for way in ("Sent", "Received")
    ]


def _number(event: Event, name: str) -> float:
    """An attribute's number; 0 if it is missing."""
    value = event.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _days(seconds: object) -> str:
    whole = int(seconds) if isinstance(seconds, int | float) else 0
    days, rest = divmod(max(0, whole), 86400)
    return f"{days} {rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"


def _image_size(event: Event) -> str:
    lines = [f"Image size of job updated: {int(event.get('Size') or 0)}"]
    for name, unit in (("MemoryUsage", "MB"), ("ResidentSetSize", "KB")):
        value = event.get(name)
        if isinstance(value, int | float):
            lines.append(f"\t{int(value)}  -  {name} of job ({unit})")
    return "".join(f"{line}\n" for line in lines)


def _aborted(event: Event) -> str:
    return f"Job was aborted.\n\t{_text(event, 'Reason', 'no reason given')}\n"


def _suspended(event: Event) -> str:
    count = int(event.get("NumberOfPIDs") or 1)
    return f"Job was suspended.\n\tNumber of processes actually suspended: {count}\n"


def _unsuspended(_: Event) -> str:
    return "Job was unsuspended.\n"


def _held(event: Event) -> str:
    code, subcode = (int(event.get(name) or 0) for name in ("HoldReasonCode", "HoldReasonSubCode"))
    return f"Job was held.\n\t{_text(event, 'HoldReason')}\n\tCode {code} Subcode {subcode}\n"


def _released(event: Event) -> str:
    return f"Job was released.\n\t{_text(event, 'Reason')}\n"


def _cluster_submitted(event: Event) -> str:
    return _submit(event, "Cluster")


def _cluster_removed(event: Event) -> str:
    procs, rows, completion = (int(event.get(name) or 0) for name in ("NextProcId", "NextRow", "Completion"))
    end = "Complete" if completion == 1 else "Incomplete"
    return f"Cluster removed\n\tMaterialized {procs} jobs from {rows} items.\t{end}\n"


def _factory_paused(event: Event) -> str:
    codes = ((name, event.get(name)) for name in ("PauseCode", "HoldCode"))
    lines = [_text(event, "Reason"), *(f"{name} {int(code)}" for name, code in codes if code is not None)]
    return "Job Materialization Paused\n" + "".join(f"\t{line}\n" for line in lines)


def _factory_resumed(event: Event) -> str:
    return f"Job Materialization Resumed\n\t{_text(event, 'Reason')}\n"


def _generic(event: Event) -> str:
    return f"{_text(event, 'Info', 'Something happened.')}\n"


def _address(host: str) -> str:
    # readers expect an address in angle brackets; condor_userlog misreads an address without a port
    if host.startswith("<"):
        return host
    return f"<[{host}]:0>" if ":" in host else f"<{host}:0>"


_BODIES = {
    EventType.SUBMIT: _submit,
    EventType.EXECUTE: _execute,
    EventType.JOB_EVICTED: _evicted,
    EventType.JOB_TERMINATED: _terminated,
    EventType.IMAGE_SIZE: _image_size,
    EventType.JOB_ABORTED: _aborted,
    EventType.JOB_SUSPENDED: _suspended,
    EventType.JOB_UNSUSPENDED: _unsuspended,
    EventType.JOB_HELD: _held,
    EventType.JOB_RELEASED: _released,
    EventType.CLUSTER_SUBMIT: _cluster_submitted,
    EventType.CLUSTER_REMOVE: _cluster_removed,
    EventType.FACTORY_PAUSED: _factory_paused,
    EventType.FACTORY_RESUMED: _factory_resumed,
}
