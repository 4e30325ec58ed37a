"""Attributes of a slot that run by themselves: what depends on none of them may be remembered."""

from __future__ import annotations

import re

#: attributes of a startd's ad that change while nothing happens, or with each fetch
_NAMES = (
    "ActivationRequests|ClaimRequests|ClockDay|ClockMin|CondorLoadAvg|ConsoleIdle|DaemonCoreDutyCycle|"
    "EnteredCurrentActivity|EnteredCurrentState|ExpectedMachine[A-Za-z]+|JobStarts|KeyboardIdle|LastBenchmark|"
    "LastFetchWorkCompleted|LastFetchWorkSpawned|LastHeardFrom|LoadAvg|MonitorSelf[A-Za-z]+|MyCurrentTime|"
    "NextFetchWorkDelay|NumPids|Recent[A-Za-z]+|RetirementTimeRemaining|TotalCondorLoadAvg|TotalLoadAvg|"
    "TotalTime[A-Za-z]+|TotalVirtualMemory|UpdateSequenceNumber|VirtualMemory"
)
_IS_CLOCK = re.compile(_NAMES, re.I)
#: such an attribute that is a number; of any other the text counts
_CLOCK = re.compile(rb"(\n(?:" + _NAMES.encode() + rb") = )-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?=\n)")


def is_clock(name: str) -> bool:
    """Whether an attribute of a slot is one whose number is not looked at when a text is known again."""
    return _IS_CLOCK.fullmatch(name) is not None


def without_clocks(text: bytes) -> bytes:
    """A slot's ad without the numbers of its clocks; their names stay."""
    # what is between the numbers, and the names: this is half the time of a substitution
    return b"".join(_CLOCK.split(text))
