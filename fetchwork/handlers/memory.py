"""How much memory a run may use, and what becomes of a job that used more."""

from __future__ import annotations

from fetchwork.codes import HoldCode
from fetchwork.handlers import slotlimit
from fetchwork.matchmaker.policy import Verdict

#: MiB: HTCondor's MODIFY_REQUEST_EXPR_REQUESTMEMORY is quantize(RequestMemory, {128})
STEP_MIB = 128
#: a job that the kernel killed for memory was seen to use this share of its limit at least
NEARLY = 0.9
#: the subcode of HTCondor's hold for memory
SUBCODE = 102


def limit_of(job: bytes, slot: bytes) -> int | None:
    """The MiB of a job's ad in a slot's, both as hooks have them; None where they do not say."""
    return slotlimit.limit_of(job, slot, b"Memory", STEP_MIB)


def over(limit_mib: int, used_mib: float) -> Verdict:
    """The hold of a job that used too much, in HTCondor's words (vanilla_proc.cpp) but for its "cgroup"."""
    return Verdict(
        "hold",
        f"Job has gone over memory limit of {limit_mib} megabytes. Last measured usage: {used_mib:.0f}"
        " megabytes.  Consider resubmitting with a higher request_memory.",
        HoldCode.JOB_OUT_OF_RESOURCES,
        SUBCODE,
    )


def killed_for_memory(limit_mib: int | None, used_mib: float, exit_signal: object) -> Verdict | None:
    """What becomes of a job that ended by a signal: the kernel's SIGKILL at the limit of its cgroup."""
    if exit_signal != 9 or limit_mib is None or used_mib < NEARLY * limit_mib:
        return None
    return over(limit_mib, used_mib)
