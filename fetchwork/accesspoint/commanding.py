"""The socket for compiled commands, which children run (``command``), and limits on their number.

This process reads none of the data: it looks up the connecting account and hands the connection to a child.
The child gets the groups of the asking process, not all groups of the account, so it can read no more than
that process could. A connection that is closed without an answer tells the program to continue in Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from fetchwork.accesspoint.children import Account, Children
from fetchwork.errors import AccessPointUnavailable, FetchworkError
from fetchwork.ipc.listening import listen
from fetchwork.ipc.peer import credentials
from fetchwork.log import event

#: commands that run at the same time: of all accounts, and of one
MOST = 128
MOST_EACH = 8
#: connections of commands that run or wait: of all accounts, and of one
MAX_CONNECTIONS = 2048
MAX_CONNECTIONS_EACH = 256
#: a waiting command waits on as long as another command ended within so many seconds
PATIENCE_S = 2.0
BACKLOG = 1024
SUFFIX = ".commands"

_SO_PEERGROUPS = getattr(socket, "SO_PEERGROUPS", 59)
#: most groups of a process whose commands are run: Python's buffer for the kernel's answer
MOST_GROUPS = 256
_GROUP = struct.Struct("I")

log = logging.getLogger(__name__)


class _Bound:
    """A limit on running commands; a command that waits while no other ends gets a TimeoutError."""

    def __init__(self, number: int) -> None:
        self._free = asyncio.Semaphore(number)
        self._ended_at = 0.0

    async def __aenter__(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._free.acquire()
                    return
            except TimeoutError:
                if time.monotonic() - self._ended_at > PATIENCE_S:
                    raise

    async def __aexit__(self, *_: object) -> None:
        self._ended_at = time.monotonic()
        self._free.release()


class _Turns:
    """One account's limit, and its number of connections, running and waiting."""

    def __init__(self) -> None:
        self.own = _Bound(MOST_EACH)
        self.connections = 0


class Commands:
    """Listens beside ``path``; ``account(uid)`` gives the account of a uid, or raises FetchworkError."""

    def __init__(self, path: Path, children: Children, account: Callable[[int], Awaitable[Account]]) -> None:
        self.path = path.with_name(path.name + SUFFIX)
        self._children = children
        self._account = account
        self._turns: dict[int, _Turns] = {}
        self._all = _Bound(MOST)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self.run = 0

    def start(self) -> None:
        """Listen; called when no other access point does. Raises AccessPointUnavailable."""
        try:
            listener = listen(self.path, BACKLOG)
        except OSError as error:
            raise AccessPointUnavailable(
                f"cannot listen at '{self.path}': {error.strerror or error}"
            ) from error
        self._listening = asyncio.ensure_future(self._listen(listener))

    async def stop(self, patience_s: float) -> None:
        """Accept no more commands, and let the running ones end."""
        if self._listening is None:
            return
        self._listening.cancel()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience_s)
        for task in self._tasks:
            task.cancel()

    async def _listen(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    # no descriptors left: later programs continue in Python, waiting ones wait longer
                    event(log, logging.ERROR, "commands_not_accepted", person="all", problem=error)
                    await asyncio.sleep(0.5)
                    continue
                task = asyncio.ensure_future(self._serve(connection))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Have a connection's command run, and return when it has ended."""
        with connection:
            uid = credentials(connection).uid
            turns = self._turns.setdefault(uid, _Turns())
            if turns.connections >= MAX_CONNECTIONS_EACH or len(self._tasks) > MAX_CONNECTIONS:
                return
            turns.connections += 1
            try:
                account = _as_it_is(await self._account(uid), connection)
                async with turns.own, self._all:
                    self.run += 1
                    await self._children.command(account, connection)
            except (FetchworkError, OSError, TimeoutError):
                # the program continues in Python, which reports the reason
                pass
            finally:
                turns.connections -= 1
                if not turns.connections:
                    self._turns.pop(uid, None)


def _as_it_is(account: Account, connection: socket.socket) -> Account:
    """Return the account with the connecting process's groups (OSError: too many)."""
    found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, MOST_GROUPS * _GROUP.size)
    groups = tuple(group for (group,) in _GROUP.iter_unpack(found))
    return replace(account, gid=credentials(connection).gid, groups=groups)
