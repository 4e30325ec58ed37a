"""How a job ended, as its starter wrote it down, and which jobs need no JOB_EXIT for that.

A hook costs its host more than most short jobs do: HTCondor's procd reads all of /proc for each. What
JOB_EXIT says of a plain job, the starter also writes into its ``StarterUserLog``: event 005 with the exit
status, or 004 for an eviction. So the generated configuration has a second keyword, with PREPARE_JOB alone
(``config.PLAIN``), and says so in the slots' ads (``FetchWorkPlain``). The agent, which sees the starter's
end, then reports in place of JOB_EXIT. It keeps room on the disk for what the starter writes; where a job
has begun and nothing says how it ended, that is not known, and its run is lost.

Such a report lacks what only the hook is told: fractions of a second of the job's CPU, blocks read and
written, the exit status of a job that was evicted, and, of HTCondor 24 and later, the reason of an eviction.
Memory is what the agent has last seen.

The job's user may write into that file, as the same user may say anything by JOB_EXIT: it is a claim about
that one job, and is read when its starter is gone.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from fetchwork.codes import Universe
from fetchwork.handlers.host.starterlog import read_faults
from fetchwork.sandbox.offered import CREDENTIALS, MARK

#: the attribute of a slot whose HTCondor has such a keyword beside each of ours
OFFERED = re.compile(rb"^FetchWorkPlain = true$", re.MULTILINE | re.IGNORECASE)

# a job with one of these needs JOB_EXIT: it leaves files or its output's end, or may be over without a word
_NEEDS_HOOK = frozenset(
    name.lower()
    for name in (
        *(MARK, CREDENTIALS, "FetchWorkTailBytes"),
        *("DeferralTime", "CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek"),
        *("WantContainer", "WantDocker", "ContainerImage", "DockerImage", "SingularityImage"),
        *("WantCheckpointSignal", "CheckpointExitCode", "SuccessCheckpointExitCode"),
        *("StarterUserLogUseXML", "PreCmd", "PostCmd"),
    )
)

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
    """Whether the agent can report a job's end without JOB_EXIT, by its ad and that of its slot."""
    universe = next((value for name, value in ad.items() if name.lower() == "jobuniverse"), Universe.VANILLA)
    return (
        universe == Universe.VANILLA
        and not any(name.lower() in _NEEDS_HOOK for name, value in ad.items() if value is not None)
        and OFFERED.search(slot) is not None
    )


@dataclass(frozen=True, slots=True)
class End:
    """What JOB_EXIT would be given: its argument, and what its ad says more than the job's."""

    reason: str
    report: Mapping[str, int | str]


def read_end(written: str, job_pid: int) -> End | None:
    """The end of a job, of which its starter has ``written`` this; None where the starter was ended itself.

    ``job_pid`` is the number of the job's process, 0 where none is known: a job with one has begun, whatever
    is written, for a full disk takes no more.
    """
    # a job may write there, too, but the starter comes last
    ended = max(_ENDED.finditer(written), key=re.Match.start, default=None)
    if ended is None:
        # a program that could not be executed has its 001, and was a process for a moment, too
        if (job_pid or _STARTED.search(written)) and read_faults(written) is None:
            return None
        return End("evict", {})
    report: dict[str, int | str] = {"JobState": "Exited"}
    if job_pid or ended["event"] == "004":
        # by which a job is known to have run, where there is no exit status
        report["JobPid"] = job_pid
    used = [tuple(map(int, found)) for found in _USAGE.findall(ended["rest"])]
    for name, first in (("RemoteUserCpu", 0), ("RemoteSysCpu", 4)):
        seconds = [_seconds(*each[first : first + 4]) for each in used]
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
    """Whether this tells how a job ended to who does not know whether it had begun."""
    # as if it had: what is an end then, is one
    return read_end(written, 1) is not None


def _seconds(days: int, hours: int, minutes: int, seconds: int) -> int:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _name(number: int) -> str:
    try:
        return signal.strsignal(number) or f"signal {number}"
    except ValueError:
        return f"signal {number}"
