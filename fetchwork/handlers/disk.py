"""How much of a disk a run may use, and what becomes of a job that used more."""

from __future__ import annotations

from fetchwork.codes import HoldCode
from fetchwork.handlers import slotlimit
from fetchwork.matchmaker.policy import Verdict

#: KiB: HTCondor's MODIFY_REQUEST_EXPR_REQUESTDISK is quantize(RequestDisk, {1024})
STEP_KIB = 1024
#: the subcode of HTCondor's hold for disk
SUBCODE = 104
_UNITS = ("KB", "MB", "GB", "TB")


def limit_of(job: bytes, slot: bytes) -> int | None:
    """The KiB of a job's ad in a slot's, both as hooks have them; None where they do not say."""
    return slotlimit.limit_of(job, slot, b"Disk", STEP_KIB)


def over(limit_kib: int) -> Verdict:
    """The hold of a job that used too much, in HTCondor's words (``CheckLVUsage`` in starter.cpp)."""
    size, unit = float(limit_kib), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size /= 1024
        unit += 1
    return Verdict(
        "hold",
        f"Job has exceeded allocated disk ({size:.2f} {_UNITS[unit]})."
        " Consider increasing the value of request_disk.",
        HoldCode.JOB_OUT_OF_RESOURCES,
        SUBCODE,
    )
