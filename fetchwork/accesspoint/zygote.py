"""Forks children that have one account's rights: ``python -m fetchwork.accesspoint.zygote FD MIN_UID``.

This is the only part of root's access point that uses root's rights. It understands one request, a message on
the socket FD, ``UID GID GROUP,GROUP... for WHAT``, which carries a socket: a child with these ids serves it.
``for request`` starts a ``child``, ``for job`` a ``supervisor`` of a scheduler-universe job, and
``for commands NAME`` a runner of the account NAME's commands (``command``). As a program with an environment
of its own it knows neither the access point's connection string nor the requests of accounts.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path

from fetchwork.accesspoint import child, command, supervisor
from fetchwork.condor import commands

_PR_SET_PDEATHSIG = 1
#: bytes of memory that a child may use beyond those of its start
_MEMORY_BYTES = 1 << 30


def main(control: socket.socket, min_uid: int) -> None:
    """Fork a child for each socket that comes; return when the access point has gone."""
    libc = ctypes.CDLL(None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # a terminal or a service manager may send it; the access point ends first, and this process with it
        signal.signal(ignored, signal.SIG_IGN)
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
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, 65536, 1)
        except ConnectionResetError:
            return
        if not message or not descriptors:
            return
        zygote = os.getpid()
        try:
            forked = os.fork()
        except OSError:
            # no more processes for now: the asker sees the end of its socket, other children live on
            traceback.print_exc()
            forked = -1
        if forked == 0:
            status = 1
            try:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                control.close()
                account, _, what = message.decode().partition(" for ")
                _become(account, min_uid)
                if what == "job":
                    # a supervisor outlives its access point until it has ended the job
                    libc.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
                    supervisor.supervise(socket.socket(fileno=descriptors[0]))
                    os._exit(0)
                _bound()
                # again, because a change of account clears the setting
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() == zygote:
                    # otherwise the zygote has gone meanwhile
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        _serve(descriptors[0], what)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(descriptor: int, what: str) -> None:
    link = socket.socket(fileno=descriptor)
    name, _, user = what.partition(" ")
    if name == "commands":
        command.serve(link, user)
    else:
        child.serve(link)


def _become(message: str, min_uid: int) -> None:
    """Take on the account of a request, permanently."""
    os.setsid()
    if os.geteuid() == 0:
        uid, gid, groups = message.split()
        if int(uid) < max(1, min_uid) or int(gid) < 0:
            raise PermissionError(f"uid {uid} is not served; allowed: {max(1, min_uid)} and above")
        os.setgroups([int(group) for group in groups.split(",") if group != "-"])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
    for default in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        # programs that a submit description starts must have the default signal handlers
        signal.signal(default, signal.SIG_DFL)


def _bound() -> None:
    """Set the limits of a child."""
    size = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY_BYTES, size + _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
