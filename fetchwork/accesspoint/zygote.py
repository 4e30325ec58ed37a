"""Forks children that have one account's rights: ``python -m fetchwork.accesspoint.zygote FD MIN_UID``.

Where the access point is root's, this is the only part of it that uses root's rights. It understands one
request, a message on the socket FD, ``UID GID GROUP,GROUP... for WHAT``, which brings a socket: a child with
these ids serves it. ``for request`` is what ``child`` does, ``for job`` to supervise a job of the scheduler
universe (``supervisor``), and ``for commands NAME`` to run commands of the account NAME (``command``). It
holds nothing of the access point's, neither the connection string nor anybody's requests: it is a program
with an environment of its own.
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
#: what a child may take
_MEMORY_BYTES = 1 << 30


def main(control: socket.socket, min_uid: int) -> None:
    """Fork a child for each socket that comes; return when the access point has gone."""
    libc = ctypes.CDLL(None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # of a terminal, or a service manager: the access point ends first, and this with it
        signal.signal(ignored, signal.SIG_IGN)
    # the kernel reaps the children
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # children may not be able to read what is imported on first use
    child.rehearse()
    commands.load()
    # what is there by now no collection of a child's looks at, and so no page is copied for it
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
            # no more processes for now: who asked sees its socket's end, and the children of others live on
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
                    # it outlives its access point for as long as it takes to end the job
                    libc.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
                    supervisor.supervise(socket.socket(fileno=descriptors[0]))
                    os._exit(0)
                _bound()
                # after the account: a change of it clears this
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() == zygote:
                    # the access point may have gone meanwhile
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
    """Take on the account of a request, for good."""
    os.setsid()
    if os.geteuid() == 0:
        uid, gid, groups = message.split()
        if int(uid) < max(1, min_uid) or int(gid) < 0:
            raise PermissionError(f"uid {uid} is not served; allowed: {max(1, min_uid)} and above")
        os.setgroups([int(group) for group in groups.split(",") if group != "-"])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
    for default in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        # what a submit description starts has the usual ones
        signal.signal(default, signal.SIG_DFL)


def _bound() -> None:
    """Take on the bounds of a child."""
    size = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY_BYTES, size + _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
