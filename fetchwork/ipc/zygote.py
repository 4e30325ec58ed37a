"""Forks a process for each request on a socket: the main loop of a zygote, and the bond to a parent.

A zygote is a program that has imported all that its children need, so that a child takes a millisecond to
start. ``link.Zygote`` is the side of the process that asks. Each request is a message that carries one end of
a socket pair, which the child serves.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import traceback
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_MAX_MESSAGE = 65536
#: signals that a terminal or a service manager may send to all processes of a service
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def end_with_parent(parent: int | None = None) -> None:
    """Have the kernel end this process with its parent, whose pid is ``parent``; at once if it has ended.

    A change of account undoes this.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Undo ``end_with_parent``."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def limit_memory(more: int) -> None:
    """Limit this process to ``more`` bytes of address space beyond its present size; raise no limit."""
    limit = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize() + more
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def serve(
    control: socket.socket,
    child: Callable[[str, socket.socket], None],
    forked: Callable[[str, int], None] | None = None,
) -> None:
    """Fork a process for each request, which runs ``child`` and ends; return when the asker has gone.

    ``forked`` gets each request and the pid of its process, -1 if no process could be had.
    """
    for ignored in ENDINGS:
        # the asker ends first, and this process with it
        signal.signal(ignored, signal.SIG_IGN)
    zygote = os.getpid()
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, _MAX_MESSAGE, 1)
        except ConnectionResetError:
            # the asker has gone without having read everything
            return
        if not message or not descriptors:
            return
        try:
            pid = os.fork()
        except OSError:
            # no more processes for now: the asker sees the end of its socket, other children live on
            traceback.print_exc()
            pid = -1
        if pid == 0:
            _run(zygote, control, child, message.decode(), descriptors[0])
        for descriptor in descriptors:
            os.close(descriptor)
        if forked is not None:
            forked(message.decode(), pid)


def _run(
    zygote: int,
    control: socket.socket,
    child: Callable[[str, socket.socket], None],
    message: str,
    descriptor: int,
) -> None:
    """Be the child for a request, and end."""
    status = 1
    try:
        end_with_parent(zygote)
        control.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            child(message, socket.socket(fileno=descriptor))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
