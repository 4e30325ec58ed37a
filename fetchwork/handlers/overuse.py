"""Limits of a run's memory and disk, and the verdict on a job that used more.

A run may use the memory and disk of its slot, as a schedd's job may. If its dynamic slot is still to be made,
the limit is its request, rounded up as HTCondor will.
"""

from __future__ import annotations

import re

from fetchwork.codes import HoldCode
from fetchwork.matchmaker.policy import Verdict

#: KiB: HTCondor's MODIFY_REQUEST_EXPR_REQUESTDISK is quantize(RequestDisk, {1024})
_DISK_STEP_KIB = 1024
#: MiB: HTCondor's MODIFY_REQUEST_EXPR_REQUESTMEMORY is quantize(RequestMemory, {128})
_MEMORY_STEP_MIB = 128
#: a job counts as killed by the kernel for memory if it was seen to use at least this share of its limit
_NEARLY = 0.9
#: the subcodes of HTCondor's holds
_MEMORY_SUBCODE = 102
_DISK_SUBCODE = 104
_UNITS = ("KB", "MB", "GB", "TB")
_NUMBER = rb"(?mi)^%s\s*=\s*(\d{1,15})(?:\.\d*)?\s*$"
_PARTITIONABLE = re.compile(rb'(?mi)^SlotType\s*=\s*"Partitionable"\s*$')


def _limit_of(job: bytes, slot: bytes, resource: bytes, step: int) -> int | None:
    """Return how much of a resource a job may use in a slot, by the text of their ads; None if unknown.

    ``step`` is that of HTCondor's MODIFY_REQUEST_EXPR_REQUEST...: quantize(Request..., {step}).
    """
    if _PARTITIONABLE.search(slot):
        asked = re.search(_NUMBER % (b"Request" + resource), job)
        return None if asked is None else -(-int(asked[1]) // step) * step
    has = re.search(_NUMBER % resource, slot)
    return None if has is None else int(has[1])


def memory_limit(job: bytes, slot: bytes) -> int | None:
    """Return the MiB that a job may use in a slot, by the text of their ads; None if unknown."""
    return _limit_of(job, slot, b"Memory", _MEMORY_STEP_MIB)


def disk_limit(job: bytes, slot: bytes) -> int | None:
    """Return the KiB that a job may use in a slot, by the text of their ads; None if unknown."""
    return _limit_of(job, slot, b"Disk", _DISK_STEP_KIB)


def over_memory(limit_mib: int, used_mib: float) -> Verdict:
    """The hold for too much memory, in HTCondor's words (vanilla_proc.cpp) without "cgroup"."""
    return Verdict(
        "hold",
        f"Job has gone over memory limit of {limit_mib} megabytes. Last measured usage: {used_mib:.0f}"
        " megabytes.  Consider resubmitting with a higher request_memory.",
        HoldCode.JOB_OUT_OF_RESOURCES,
        _MEMORY_SUBCODE,
    )


def killed_for_memory(limit_mib: int | None, used_mib: float, exit_signal: object) -> Verdict | None:
    """The hold of a job that the kernel killed at its cgroup's limit; None if it ended otherwise."""
    if exit_signal != 9 or limit_mib is None or used_mib < _NEARLY * limit_mib:
        return None
    return over_memory(limit_mib, used_mib)


def over_disk(limit_kib: int) -> Verdict:
    """The hold for too much disk, in HTCondor's words (``CheckLVUsage`` in starter.cpp)."""
    size, unit = float(limit_kib), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size /= 1024
        unit += 1
    return Verdict(
        "hold",
        f"Job has exceeded allocated disk ({size:.2f} {_UNITS[unit]})."
        " Consider increasing the value of request_disk.",
        HoldCode.JOB_OUT_OF_RESOURCES,
        _DISK_SUBCODE,
    )
