"""Runs commands of HTCondor's and fetchwork's in a child, each for a compiled program of the account's.

The program (``fetchwork/client/command.c``) says what it was called with, and sends its standard streams and
its directory; from then on the command is this process's, with the rights that the program has. The program
is told: ``b`` it begins; ``u`` it is about to use a stream, or to do what must not be done twice, so that it
can't be begun anew afterwards; ``p`` it is for Python, in a process of its own; ``s`` and the status. Where
the program goes away, the kernel ends this process.

A fork costs as much as a short command, so a child runs one after the other, all of one account and its
groups. It does so only after commands that ended as they should; after any other it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import os
import resource
import select
import signal
import socket
import struct
import time
import traceback
from pathlib import Path
from typing import NoReturn, cast

from fetchwork import __version__
from fetchwork.accesspoint.child import allow_cpu
from fetchwork.condor import commands, invocation, process

MAGIC = b"FWC1"
_HEAD = struct.Struct(">4sI")
_MAX_REQUEST = 8 * 1024 * 1024
#: standard input, output, error, and the directory
_DESCRIPTORS = 4
#: seconds for the request to arrive, and of CPU
_ARRIVE_S = 30
_CPU_S = 600
#: a child that has so much more memory than at first, in bytes, runs no other command
_MORE_MEMORY = 64 << 20

#: what may last, starts programs, or is no question to a queue: these are a process of the account's own
_OWN = frozenset(
    ("condor_wait", "condor_tail", "condor_transfer_data", "condor_submit_dag", "condor_config_val")
)
#: files that each process has for itself
_NOT_SHARED = ("/dev/fd/", "/dev/std", "/dev/tty", "/dev/pts/", "/proc/")


def _where() -> tuple[int, int, int]:
    """By which two processes know that a path means the same to them: mounts, and the root directory."""
    root = Path("/").stat()
    # this can be asked before the account has changed
    return Path("/proc/self/ns/mnt").stat().st_ino, root.st_dev, root.st_ino


_HERE = _where()


class _ForPython(BaseException):
    """The command is to be run in a process of the account's own; nothing was done yet."""


def serve(orders: socket.socket, user: str) -> NoReturn:
    """Run the commands whose connections come over ``orders`` for the account ``user``, and end with it."""
    null = os.open(os.devnull, os.O_RDWR)
    # what a command makes is mostly what it prints
    gc.set_threshold(100_000, 50, 100)
    most = _memory() + _MORE_MEMORY
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, 1, 1)
        if not message or not descriptors:
            break
        with socket.socket(fileno=descriptors[0]) as link:
            # as the access point accepted it, it does not block
            link.setblocking(True)
            try:
                status, is_clean = _run(link, user)
                # a reader of the streams sees their end when the program ends
                for descriptor in range(3):
                    os.dup2(null, descriptor)
                _outlive(link)
                link.sendall(b"s" + bytes([status & 0xFF]))
            except (_ForPython, ConnectionError):
                _last_word(link, b"p")
                break
        if not is_clean or _memory() > most:
            break
        os.chdir("/")
        orders.sendall(b"d")
    os._exit(0)


def _memory() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()


def _last_word(link: socket.socket, word: bytes) -> None:
    with contextlib.suppress(OSError):
        link.sendall(word)


def _run(link: socket.socket, user: str) -> tuple[int, bool]:
    """Run the command of a connection: its status, and whether it left nothing behind in this process."""
    signal.alarm(_ARRIVE_S)
    try:
        words, environment, key = _received(link)
    except (ValueError, IndexError, OSError):
        # no request of a program of ours
        raise _ForPython from None
    signal.alarm(0)
    allow_cpu(_CPU_S)
    _end_with(link)
    name = words[0].rpartition("/")[2]
    if name == commands.COMMAND_LINE:
        if not commands.SERVED.intersection(words[1:2]):
            raise _ForPython
    elif name not in commands.COMMANDS or name in _OWN:
        raise _ForPython
    if any(part in word for word in words for part in _NOT_SHARED):
        raise _ForPython
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop(invocation.KEY_VARIABLE, None)
    time.tzset()
    link.sendall(b"b")
    used = False

    def use() -> None:
        nonlocal used
        if not used:
            used = True
            link.sendall(b"u")

    class Stream(io.FileIO):
        """A standard stream; before its first use the program is told."""

        def _before_reading(self) -> None:
            if self.isatty():
                # stopped and continued at a terminal the program would not have what is typed
                raise _ForPython
            use()

        def read(self, size: int | None = -1, /) -> bytes | None:  # type: ignore[override]
            self._before_reading()
            return super().read(-1 if size is None else size)

        def readall(self) -> bytes:
            self._before_reading()
            return super().readall()

        def readinto(self, buffer: object, /) -> int | None:
            self._before_reading()
            return super().readinto(buffer)  # type: ignore[arg-type]

        def write(self, data: object, /) -> int | None:  # type: ignore[override]
            use()
            return super().write(data)  # type: ignore[arg-type]

    run = invocation.of_process([name, *words[1:]], process.connect, user=user, key=key, stream=Stream)
    run.once = use
    try:
        status = process.finish(run, commands.run)
    except Exception:
        if not used:
            # a limit of this process, or a module that it can't read: there it is told as always
            raise _ForPython from None
        traceback.print_exc()
        return 1, False
    run.close()
    try:
        # what could not be written must not be written to the next one's
        for stream in (run.stdin, run.stdout, run.stderr):
            cast(io.BufferedIOBase, stream).detach()
    except OSError:
        return status, False
    return status, True


def _received(link: socket.socket) -> tuple[list[str], dict[str, str], str]:
    """The command's words, environment and key; its streams, directory and umask are this process's now."""
    data, descriptors, _, _ = socket.recv_fds(link, 65536, _DESCRIPTORS)
    parts = [data]
    size = len(data)
    while size < _HEAD.size or size < _length(parts) + _HEAD.size:
        if not (more := link.recv(1 << 20)):
            raise _ForPython
        parts.append(more)
        size += len(more)
    if len(descriptors) != _DESCRIPTORS:
        raise _ForPython
    fields = b"".join(parts)[_HEAD.size :].split(b"\0")
    version, key, mask, space, root_device, root_inode, count = map(bytes.decode, fields[:7])
    where = int(space), int(root_device), int(root_inode)
    if version != __version__ or where != _HERE:
        raise _ForPython
    end = 7 + int(count)
    if not 7 < end < len(fields):
        raise _ForPython
    words = [os.fsdecode(word) for word in fields[7:end]]
    variables = (os.fsdecode(variable).partition("=") for variable in fields[end:-1])
    environment = {name: value for name, equals, value in variables if name and equals}
    os.umask(int(mask) & 0o777)
    *streams, directory = descriptors
    try:
        os.fchdir(directory)
    except OSError:
        raise _ForPython from None
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    return words, environment, key


def _length(parts: list[bytes]) -> int:
    head = b"".join(parts)[: _HEAD.size] if len(parts[0]) < _HEAD.size else parts[0][: _HEAD.size]
    magic, length = _HEAD.unpack(head)
    if magic != MAGIC or length > _MAX_REQUEST:
        raise _ForPython
    return int(length)


def _end_with(link: socket.socket) -> None:
    """Have the kernel end this process (SIGIO) when the program at the other end is gone."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) | os.O_ASYNC)
    # it may have gone before
    if select.select([link], [], [], 0)[0]:
        os._exit(0)


def _outlive(link: socket.socket) -> None:
    """Take back ``_end_with``."""
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) & ~os.O_ASYNC)
