"""Takes from a process what evaluating needs not: rights, files, memory without bound."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

from fetchwork.matchmaker.bounds import MEMORY_BYTES

_PR_SET_NO_NEW_PRIVS = 38
_NOBODY = 65534


def drop_rights() -> None:
    """Become nobody, where this is root; write no file, leave no core, know no environment."""
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
    """Let the process grow by ``MEMORY_BYTES``, and fork no more."""
    size = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
