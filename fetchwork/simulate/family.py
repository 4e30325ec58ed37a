"""Real processes for simulated daemons: by their pids an agent sees which asks, and which has ended.

The agent knows a hook by its socket's peer and the starter as that process's parent, and watches the starter.
So that a simulated starter can die as a real one does, each is a process here, as are its hooks and its job;
they do nothing but exist and open the connections that the simulation then speaks on.

    actor (the startd)  --fork-->  starter  --fork-->  hook: connects to the agent, hands the socket back
                                             --fork-->  job

A process ends with its parent, and when the simulation closes its control socket.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

_ACTOR = Path(__file__).with_name("actor.py")


class Actor:
    """One process that obeys commands; see ``actor.py``."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control
        self._turn = asyncio.Lock()
        self._job: Actor | None = None

    @classmethod
    def startd(cls) -> "Actor":
        """The first of a family: a child of this process, which every other descends from."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_ACTOR), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        actor = cls(process.pid, ours)
        actor._process = process
        return actor

    _process: "subprocess.Popen[bytes] | None" = None

    async def fork(self, uid: int | None = None) -> "Actor":
        """A child of this process; under another account if ``uid`` is given."""
        answer, descriptors = await self._tell(f"fork {-1 if uid is None else uid}")
        return Actor(int(answer), socket.socket(fileno=descriptors[0]))

    async def fork_job(self) -> int:
        """A child that is the job; its pid."""
        self._job = await self.fork()
        return self._job.pid

    def end_job(self) -> None:
        """The job is over."""
        if self._job is not None:
            self._job.kill()
            self._job = None

    async def connect(self, path: Path | str) -> socket.socket:
        """A connection to a Unix socket whose peer is this process."""
        answer, descriptors = await self._tell(f"connect {path}")
        if not descriptors:
            raise OSError(int(answer), os.strerror(int(answer)))
        return socket.socket(fileno=descriptors[0])

    def kill(self) -> None:
        """SIGKILL, to its children as well."""
        self.end_job()
        self._control.close()
        # the process would exit with its control socket, but the agent has to see the SIGKILL at once
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)
        if self._process is not None:
            self._process.wait()

    async def _tell(self, words: str) -> tuple[str, list[int]]:
        async with self._turn:
            asking = asyncio.ensure_future(asyncio.to_thread(self._ask, words))
            try:
                return await asyncio.shield(asking)
            except asyncio.CancelledError:
                # the answer still comes, but is not needed any more
                await asyncio.wait({asking})
                if asking.exception() is None:
                    for descriptor in asking.result()[1]:
                        os.close(descriptor)
                raise

    def _ask(self, words: str) -> tuple[str, list[int]]:
        self._control.sendall(words.encode())
        data, descriptors, _, _ = socket.recv_fds(self._control, 4096, 1)
        if not data:
            raise ProcessLookupError(f"process {self.pid} of the simulation has gone")
        return data.decode(), descriptors


def connect_as_hooks(path: Path | str) -> "_HookConnect":
    """Connections to an agent's socket, each of a hook process of its own."""
    return _HookConnect(str(path))


class _HookConnect:
    def __init__(self, path: str) -> None:
        self._path = path

    async def __call__(self, parent: Actor | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert parent is not None, "a host with connect_as_hooks has a family"
        hook = await parent.fork()
        try:
            connected = await hook.connect(self._path)
            reader, writer = await asyncio.open_unix_connection(sock=connected)
        except BaseException:
            hook.kill()
            raise
        transport = writer.transport
        closing = transport.close

        def close() -> None:
            closing()
            hook.kill()

        transport.close = close  # type: ignore[method-assign]
        return reader, writer
