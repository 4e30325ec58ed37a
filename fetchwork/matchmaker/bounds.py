"""The limits of evaluating one item, and their enforcement in a process: rights, files, memory."""

from __future__ import annotations

import ctypes
import os
import resource

from fetchwork.ipc import zygote

#: seconds of CPU for one item: an autocluster matched with a slot, a job's policy, the ad of a run.
#: HTCondor's own evaluations take microseconds; the longest sane Requirements seen took 3 ms
ITEM_CPU_S = 0.2
#: seconds of CPU that the items of one submitter get in each period
SUBMITTER_CPU_S = 1.0
PERIOD_S = 10.0
#: the part of them that one request may take, so that other submitters have their turn
SLICE_S = 0.05
#: matching that has found nothing is repeated until all is evaluated or so much CPU time is spent
LOOK_CPU_S = 0.25
#: once an item has ended a worker, nothing new of its submitter is evaluated for so long ...
PAUSE_S = 5.0
#: ... and then, until so long after it, only if nothing else fits
SUSPICION_S = 30.0
#: wall seconds of one request: a worker that does not answer in time is replaced, and no item is blamed
REQUEST_S = 15.0
#: bytes of address space that a worker may add to those at its start
MEMORY_BYTES = 1 << 30
#: bytes of ads that are sent for one submitter in one request; a single ad may be larger
SENT_BYTES = 512 << 10
#: bytes of one ad in JSON, of all that a worker keeps, and of one answer
AD_BYTES = 4 << 20
KEPT_BYTES = 128 << 20
ANSWER_BYTES = 64 << 20
#: after so many workers ended over one request, it evaluates only autoclusters that were evaluated before
ENDS_A_REQUEST = 4

_PR_SET_NO_NEW_PRIVS = 38
_NOBODY = 65534


def drop_rights() -> None:
    """Become the account `nobody` if this is root; write no file, leave no core, clear the environment."""
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    os.chdir("/")
    for name in list(os.environ):
        del os.environ[name]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_memory() -> None:
    """Limit the process to ``MEMORY_BYTES`` more than now, and to no forks."""
    zygote.limit_memory(MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
