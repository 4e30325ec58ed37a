"""Runs HTCondor's and fetchwork's commands in a child, each for a compiled program of the account.

The program (``fetchwork/client/command.c``) sends its words, its standard streams and its directory; then
this process runs the command, with the program's rights. It reports to the program: ``b`` the command begins;
``u`` it is about to use a stream, or to do something that must not be repeated, so it can't be begun anew
later; ``p`` a Python process of its own must run it; ``s`` and the exit status. If the program goes away, the
kernel ends this process.

A fork costs as much as a short command, so a child runs several commands in turn, all of one account and its
groups. After a command that did not end normally the child ends.
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
#: descriptors of a request: standard input, output, error, and the directory
_DESCRIPTORS = 4
#: seconds for the request to arrive, and of CPU time for the command
_ARRIVE_S = 30
_CPU_S = 600
#: bytes: a child whose memory has grown by more runs no further command
_MORE_MEMORY = 64 << 20

#: commands that may last long, start programs, or ask no queue: they get a process of their own
_OWN = frozenset(
    ("condor_wait", "condor_tail", "condor_transfer_data", "condor_submit_dag", "condor_config_val")
)
#: paths that differ between processes
_NOT_SHARED = ("/dev/fd/", "/dev/std", "/dev/tty", "/dev/pts/", "/proc/")


def _where() -> tuple[int, int, int]:
    """Return mount namespace and root directory; where equal, paths mean the same in two processes."""
    root = Path("/").stat()
    # evaluated before the change of account, while it is allowed
    return Path("/proc/self/ns/mnt").stat().st_ino, root.st_dev, root.st_ino


_HERE = _where()


class _ForPython(BaseException):
    """The command must run in a process of its own; nothing was done yet."""


class _Program:
    """The program at the other end of a connection."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.used = False

    def use(self) -> None:
        """Tell the program, once, that the command can't be begun anew from now on."""
        if not self.used:
            self.used = True
            self._link.sendall(b"u")

    def stream(self, descriptor: int, mode: str) -> io.FileIO:
        """Return a standard stream."""
        return _Stream(self, descriptor, mode)


class _Stream(io.FileIO):
    """A standard stream that tells the program before its first use."""

    def __init__(self, program: _Program, descriptor: int, mode: str) -> None:
        super().__init__(descriptor, mode, closefd=False)
        self._program = program

    def _before_reading(self) -> None:
        if self.isatty():
            # a program that is stopped and continued at a terminal would not get the typed input
            raise _ForPython
        self._program.use()

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
        self._program.use()
        return super().write(data)  # type: ignore[arg-type]


def serve(orders: socket.socket, user: str) -> NoReturn:
    """Run the commands of ``user`` whose connections come over ``orders``; end when ``orders`` ends."""
    null = os.open(os.devnull, os.O_RDWR)
    # most objects that a command makes are output, and no garbage
    gc.set_threshold(100_000, 50, 100)
    most = _memory() + _MORE_MEMORY
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, 1, 1)
        if not message or not descriptors:
            break
        with socket.socket(fileno=descriptors[0]) as link:
            # the access point accepted it as non-blocking
            link.setblocking(True)
            try:
                status, is_clean = _run(link, user)
                # readers of the streams must see the end when the program ends
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
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()


def _last_word(link: socket.socket, word: bytes) -> None:
    with contextlib.suppress(OSError):
        link.sendall(word)


def _run(link: socket.socket, user: str) -> tuple[int, bool]:
    """Run the command of a connection; return its status, and whether it left this process clean."""
    signal.alarm(_ARRIVE_S)
    try:
        words, environment, key = _received(link)
    except (ValueError, IndexError, OSError):
        # the request is not from our program
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
    program = _Program(link)
    run = invocation.of_process(
        [name, *words[1:]], process.connect, user=user, key=key, stream=program.stream
    )
    run.once = program.use
    try:
        status = process.finish(run, commands.run)
    except Exception:
        if not program.used:
            # a limit of this process, or a module that it can't read: in Python the usual message appears
            raise _ForPython from None
        traceback.print_exc()
        return 1, False
    run.close()
    try:
        # unwritten output must not reach the next command's streams
        for stream in (run.stdin, run.stdout, run.stderr):
            cast(io.BufferedIOBase, stream).detach()
    except OSError:
        return status, False
    return status, True


def _received(link: socket.socket) -> tuple[list[str], dict[str, str], str]:
    """Return the command's words, environment and key; take over its streams, directory and umask."""
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
    """Have the kernel end this process (SIGIO) when the program at the other end goes away."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) | os.O_ASYNC)
    # it may already be gone
    if select.select([link], [], [], 0)[0]:
        os._exit(0)


def _outlive(link: socket.socket) -> None:
    """Undo ``_end_with``."""
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) & ~os.O_ASYNC)
