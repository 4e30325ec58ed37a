"""The end of a job as its starter's log has it, and the jobs that need no JOB_EXIT for that.

A hook costs its host more than most short jobs do: HTCondor's procd reads all of /proc for each. For a job
that leaves nothing but its exit status, the starter writes the same end that JOB_EXIT would report into its
``StarterUserLog``: event 005 with the exit status, or 004 for an eviction. So the generated configuration
has a second keyword, with PREPARE_JOB alone (``config.PLAIN``), and the slots' ads say so
(``FetchWorkPlain``). The agent sees the starter end, and reports in place of JOB_EXIT. It reserves room on
the disk for the starter's lines; if a job has begun and the log has no end, its end is unknown and its run
is lost.

Such a report lacks the values that only the hook gets: fractions of a second of the job's CPU, blocks read
and written, the exit status of an evicted job, and, on HTCondor 24 and later, the reason of an eviction. Its
memory is the agent's last measurement.

The job's user may write into that file, as the same user may say anything by JOB_EXIT: it is a claim about
that one job, and the agent reads it after the starter has ended.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from fetchwork.codes import Universe
from fetchwork.handlers.host.starterlog import read_faults
from fetchwork.sandbox.offered import CREDENTIALS, MARK

#: the attribute of a slot whose HTCondor has such a second keyword beside each keyword
OFFERED = re.compile(rb"^FetchWorkPlain = true$", re.MULTILINE | re.IGNORECASE)

# a job with one of these needs JOB_EXIT: it leaves files or its output's end, or may end without a log entry
NEEDS_HOOK = frozenset(
    name.lower()
    for name in (
        MARK, CREDENTIALS, "FetchWorkTailBytes",
        "DeferralTime", "CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek",
        "WantContainer", "WantDocker", "ContainerImage", "DockerImage", "SingularityImage",
        "WantCheckpointSignal", "CheckpointExitCode", "SuccessCheckpointExitCode",
        "StarterUserLogUseXML", "PreCmd", "PostCmd",
    )
)  # fmt: skip

_STARTED = re.compile(r"^001 \(", re.MULTILINE)
_ENDED = re.compile(
    r"^(?P<event>004|005) \([^\n]*\n"
    r"\t\((?:[01])\) (?:Normal termination \(return value (?P<code>-?\d{1,10})\)"
    r"|Abnormal termination \(signal (?P<signal>\d{1,3})\)|[^\n]*)\n(?P<rest>(?:\t[^\n]*\n)*)",
    re.MULTILINE,
)
_USAGE = re.compile(
    r"^\t+Usr (\d{1,6}) (\d\d):(\d\d):(\d\d), Sys (\d{1,6}) (\d\d):(\d\d):(\d\d)"
    r"  -  Run (?:Local|Remote) Usage$",
    re.MULTILINE,
)


def needs_no_hook(ad: Mapping[str, object], slot: bytes) -> bool:
    """Whether the agent can report a job's end without JOB_EXIT, by the ads of the job and its slot."""
    universe = next((value for name, value in ad.items() if name.lower() == "jobuniverse"), Universe.VANILLA)
    return (
        universe == Universe.VANILLA
        and not any(name.lower() in NEEDS_HOOK for name, value in ad.items() if value is not None)
        and OFFERED.search(slot) is not None
    )


@dataclass(frozen=True, slots=True)
class End:
    """The end as JOB_EXIT would get it: its argument, and the attributes that its ad adds to the job's."""

    reason: str
    report: Mapping[str, int | str]


def read_end(written: str, job_pid: int) -> End | None:
    """Return the end of a job by its starter's log, ``written``; None if the starter itself was killed.

    ``job_pid`` is the pid of the job's process, 0 if unknown: a job with a pid has begun even if the log does
    not say so, since a full disk takes no more lines.
    """
    # the job may write there, too, but the starter writes last
    ended = max(_ENDED.finditer(written), key=re.Match.start, default=None)
    if ended is None:
        # a program that could not be executed also has its 001, and was a process for a moment
        if (job_pid or _STARTED.search(written)) and read_faults(written) is None:
            return None
        return End("evict", {})
    report: dict[str, int | str] = {"JobState": "Exited"}
    if job_pid or ended["event"] == "004":
        # without an exit status, this shows that the job ran
        report["JobPid"] = job_pid
    used = [tuple(map(int, found)) for found in _USAGE.findall(ended["rest"])]
    for name, first in (("RemoteUserCpu", 0), ("RemoteSysCpu", 4)):
        seconds = [_seconds(*numbers[first : first + 4]) for numbers in used]
        if any(seconds):
            report[name] = max(seconds)
    if ended["event"] == "004":
        return End("evict", report)
    if ended["code"] is not None:
        return End("exit", {**report, "ExitBySignal": "false", "ExitCode": int(ended["code"])})
    if ended["signal"] is None:
        return None
    number = int(ended["signal"])
    reason = f"died on signal {number} ({_name(number)})"
    return End("exit", {**report, "ExitBySignal": "true", "ExitSignal": number, "ExitReason": reason})


def tells_enough(written: str) -> bool:
    """Whether the log proves how the job ended even if nothing else says that it started."""
    # read as if it had started: an end found so holds in both cases
    return read_end(written, 1) is not None


def _seconds(days: int, hours: int, minutes: int, seconds: int) -> int:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _name(number: int) -> str:
    try:
        return signal.strsignal(number) or f"signal {number}"
    except ValueError:
        return f"signal {number}"
