"""The side of the process that asks: its zygote (``zygote``), and the links to the zygote's children."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys

from fetchwork.ipc.frames import Buffer, Json, encode

#: the variables of a zygote's environment: those that Python and HTCondor's code read
_ENVIRONMENT = ("CONDOR_CONFIG", "TZ")


class Link:
    """A connection to a process; EOFError or ConnectionError tell that it has ended."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._buffer = Buffer()

    async def send(self, frame: Json) -> None:
        """Send a frame."""
        await asyncio.get_running_loop().sock_sendall(self.socket, encode(frame))

    async def receive(self) -> Json:
        """Return the next frame."""
        while (frame := self._buffer.take()) is None:
            part = await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20)
            if not part:
                raise EOFError
            self._buffer.feed(part)
        return frame

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


class Zygote:
    """The zygote ``python -m MODULE FD ARGUMENT...``; started when needed, also after its end."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.module = module
        self.arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the running zygote."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the zygote, in place of one that has ended; raises OSError."""
        self._hang_up()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                self._process = self.popen(theirs)
            except BaseException:
                ours.close()
                raise
        self._control = ours

    def popen(self, control: socket.socket) -> subprocess.Popen[bytes]:
        """Execute the program with its control socket; raises OSError."""
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        return subprocess.Popen(
            [sys.executable, "-P", "-m", self.module, str(control.fileno()), *self.arguments],
            pass_fds=[control.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **kept},
        )

    def fork(self, message: str) -> Link:
        """Return the link to a new child for this request; raises OSError."""
        if self._process is None or self._process.poll() is not None or self._control is None:
            self.start()
        assert self._control is not None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [message.encode()], [theirs.fileno()])
            except BaseException:
                ours.close()
                raise
        return Link(ours)

    async def report(self) -> str:
        """Return the zygote's next message; empty if the zygote has ended."""
        assert self._control is not None
        return (await asyncio.get_running_loop().sock_recv(self._control, 256)).decode()

    async def close(self) -> None:
        """End the zygote, and its children with it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
        self._hang_up()
        if process is not None:
            await asyncio.to_thread(process.wait)

    def _hang_up(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
