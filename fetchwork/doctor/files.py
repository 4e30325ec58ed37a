"""What the files of jobs need: HTCondor's transfer plugins, and space on the agent's disk."""

import shutil
from collections.abc import Iterator

from fetchwork.config import HostConfig
from fetchwork.doctor.line import Line, ok, warned
from fetchwork.sandbox.plugins import find

_MIB = 1 << 20
#: what a host is to have for files of jobs, at the least
_LEAST_FREE_MIB = 1024


def check(config: HostConfig) -> Iterator[Line]:
    """Yield what jobs with files would miss here; without an agent none comes."""
    if config.agent.run == "none":
        yield ok("files", "no agent: jobs whose files have to be transferred do not come to this host")
        return
    schemes = sorted(find())
    if not schemes:
        yield warned(
            "files",
            "no file transfer plugin answers: a job with URLs as inputs or outputs is held here",
            "condor_config_val FILETRANSFER_PLUGINS, and run each of them with -classad",
        )
    spool = config.agent.spool
    try:
        free = shutil.disk_usage(spool).free // _MIB
    except OSError:
        # the spool has a line of its own
        return
    if free < _LEAST_FREE_MIB:
        yield warned(
            "files",
            f"the disk of '{spool}' has {free} MiB left: the files of jobs pass through it",
            "free some space, or set a smaller [files] cache_mib",
        )
    elif schemes:
        yield ok("files", f"plugins for {', '.join(schemes)}; {free} MiB left")
