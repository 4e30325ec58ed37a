"""Forks children that have one account's rights: ``python -m fetchwork.accesspoint.zygote FD MIN_UID``.

This is the only part of root's access point that uses root's rights. It understands one request,
``UID GID GROUP,GROUP... for WHAT``: a child with these ids serves its socket.
``for request`` starts a ``child``, ``for job`` a ``supervisor`` of a scheduler-universe job, and
``for commands NAME`` a runner of the account NAME's commands (``command``). As a program with an environment
of its own it knows neither the access point's connection string nor the requests of accounts.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys

from fetchwork.accesspoint import child, command
from fetchwork.accesspoint.scheduler import supervisor
from fetchwork.condor import commands
from fetchwork.ipc import zygote

#: bytes of memory that a child may use beyond those of its start
_MEMORY_BYTES = 1 << 30


def main(control: socket.socket, min_uid: int) -> None:
    """Fork a child for each socket that comes; return when the access point has gone."""
    # the kernel reaps the children
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # children may lack the rights to read modules that are imported on first use
    child.rehearse()
    commands.load()
    # a child's garbage collection skips frozen objects, and so copies no pages of them
    gc.collect()
    gc.freeze()
    os.chdir("/")
    os.environ.clear()
    me = os.getpid()

    def serve(request: str, link: socket.socket) -> None:
        account, _, what = request.partition(" for ")
        _become(account, min_uid)
        if what == "job":
            # a supervisor outlives its access point until it has ended the job
            zygote.outlive_parent()
            supervisor.supervise(link)
            return
        zygote.limit_memory(_MEMORY_BYTES)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # again, because a change of account undoes it
        zygote.end_with_parent(me)
        name, _, user = what.partition(" ")
        if name == "commands":
            command.serve(link, user)
        else:
            child.serve(link)

    zygote.serve(control, serve)


def _become(account: str, min_uid: int) -> None:
    """Take on the account of a request, permanently."""
    os.setsid()
    if os.geteuid() == 0:
        uid, gid, groups = account.split()
        if int(uid) < max(1, min_uid) or int(gid) < 0:
            raise PermissionError(f"uid {uid} is not served; allowed: {max(1, min_uid)} and above")
        os.setgroups([int(group) for group in groups.split(",") if group != "-"])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
    for default in (*zygote.ENDINGS, signal.SIGCHLD):
        # programs that a submit description starts must have the default signal handlers
        signal.signal(default, signal.SIG_DFL)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
