"""The access point's side of the zygote and its children: starts, requests and ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from fetchwork import errors
from fetchwork.client import wire
from fetchwork.client.wire import Json
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.errors import FetchworkError

#: seconds without a request after which a child is ended; and its most requests
IDLE_S = 20.0
MOST_USES = 500
SWEEP_S = 5.0
#: children at the same time; each account has at most three
MOST = 96


class ChildEnded(FetchworkError):
    """The child ended during a request: by its limits, or by the request's input."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this host, with the ids of its children."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> Account:
        """Return the account of a line of passwd; asks the name service, which may be slow."""
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, groups)


@dataclass
class _Child:
    link: socket.socket
    used_at: float = field(default_factory=time.monotonic)
    uses: int = 0


class Children:
    """One zygote, and for each account and purpose one child, which serves one request at a time."""

    def __init__(self, min_uid: int) -> None:
        self._min_uid = min_uid
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: dict[tuple[int, str], _Child] = {}
        #: children for commands that run no command now
        self._idle_commands: defaultdict[Account, list[_Child]] = defaultdict(list)
        self._turns: dict[tuple[int, str], asyncio.Lock] = {}
        self._room = asyncio.Semaphore(MOST)

    def start(self) -> None:
        """Start the zygote; called before this process has secrets."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        # so that stop() closes it even if no process can be started
        self._control = ours
        with theirs:
            self._zygote = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    *("-m", "fetchwork.accesspoint.zygote"),
                    *(str(theirs.fileno()), str(self._min_uid)),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_kept()},
            )

    async def stop(self) -> None:
        """End the zygote, and the children with it."""
        for key in list(self._idle):
            self._idle.pop(key).link.close()
        for children in self._idle_commands.values():
            for child in children:
                child.link.close()
        self._idle_commands.clear()
        if self._control is not None:
            self._control.close()
        if self._zygote is not None:
            self._zygote.kill()
            await asyncio.to_thread(self._zygote.wait)

    async def ask(self, account: Account, request: Json, timeout_s: float) -> Json:
        """Return the single answer of a child; raises the child's error, ChildEnded or TimeoutError."""
        async with contextlib.aclosing(self.answers(account, request, timeout_s)) as answers:
            async for answer in answers:
                return answer
        raise ChildEnded("no answer")

    async def answers(
        self,
        account: Account,
        request: Json,
        timeout_s: float,
        *,
        wanted: Callable[[Json], Awaitable[Json]] | None = None,
    ) -> AsyncGenerator[Json, None]:
        """Yield the answers of a child; if there are several, the last one has ``end``.

        A frame with ``want`` is a question of the child: ``wanted`` gives the reply. ``data`` (bytes) is sent
        unencoded in either direction.
        """
        key = (account.uid, request["do"])
        async with self._turns.setdefault(key, asyncio.Lock()), self._room:
            child = self._idle.pop(key, None) or self._fork(account)
            whole = False
            try:
                async with asyncio.timeout(timeout_s):
                    loop = asyncio.get_running_loop()
                    await loop.sock_sendall(child.link, wire.encode(request))
                    several = request["do"] == "describe"
                    while not whole:
                        answer = await self._receive(child.link, account)
                        if "want" in answer and wanted is not None:
                            reply = await wanted(answer["want"])
                            data = reply.get("data")
                            if data is not None:
                                reply = {**reply, "data": len(data)}
                            await loop.sock_sendall(child.link, wire.encode(reply) + (data or b""))
                            continue
                        whole = not several or "end" in answer or "error" in answer
                        if "error" in answer:
                            raise _error(answer)
                        if whole:
                            self._put_back(key, child)
                        yield answer
            finally:
                if key not in self._idle or self._idle[key] is not child:
                    child.link.close()

    def _put_back(self, key: tuple[int, str], child: _Child) -> None:
        child.uses += 1
        child.used_at = time.monotonic()
        if child.uses < MOST_USES:
            self._idle[key] = child

    async def sweep(self) -> None:
        """End idle children, again and again, until this is cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self._sweep()

    def _sweep(self) -> None:
        now = time.monotonic()
        for key, child in list(self._idle.items()):
            if now - child.used_at > IDLE_S:
                del self._idle[key]
                child.link.close()
        for account, children in list(self._idle_commands.items()):
            while children and now - children[0].used_at > IDLE_S:
                children.pop(0).link.close()
            if not children:
                del self._idle_commands[account]
        for key, turn in list(self._turns.items()):
            if not turn.locked() and key not in self._idle:
                del self._turns[key]

    async def _receive(self, link: socket.socket, account: Account) -> Json:
        try:
            answer = await received(link)
            size = answer.get("data")
            if size is not None:
                if type(size) is not int or not 0 <= size <= CHUNK_BYTES:
                    raise EOFError
                answer["data"] = await _read(link, size)
            return answer
        except (ConnectionError, EOFError):
            raise ChildEnded(
                f"the process that does this for '{account.name}' ended: it took too long, or too much memory"
            ) from None

    def supervisor(self, account: Account) -> socket.socket:
        """Return the connection to a new supervisor of one job of an account (``supervisor``)."""
        return self._forked(account, "job")

    async def command(self, account: Account, connection: socket.socket) -> None:
        """Have a child run the command that comes over ``connection`` (``command``), and close it here.

        Returns when the command or its child has ended.
        """
        child = self._commanded(account, connection)
        # so that the end of the child closes the program's connection
        connection.close()
        ended = False
        try:
            ended = bool(await asyncio.get_running_loop().sock_recv(child.link, 1))
        finally:
            child.uses += 1
            child.used_at = time.monotonic()
            idle = sum(map(len, self._idle_commands.values()))
            if ended and child.uses < MOST_USES and idle < MOST:
                self._idle_commands[account].append(child)
            else:
                child.link.close()

    def _commanded(self, account: Account, connection: socket.socket) -> _Child:
        """Give a command's connection to an idle child or a new one, and return the child."""
        idle = self._idle_commands.get(account, ())
        while idle:
            # take the one that was used last, so that the others become idle and end
            child = idle.pop()
            try:
                socket.send_fds(child.link, [b"c"], [connection.fileno()])
                return child
            except OSError:
                # the child has ended meanwhile
                child.link.close()
        child = self._fork(account, f"commands {account.name}")
        try:
            socket.send_fds(child.link, [b"c"], [connection.fileno()])
        except OSError:
            child.link.close()
            raise
        return child

    def _fork(self, account: Account, what: str = "request") -> _Child:
        return _Child(self._forked(account, what))

    def _forked(self, account: Account, what: str) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as where_it_fails:
            where_it_fails.enter_context(ours)
            self._send(account, what, theirs)
            where_it_fails.pop_all()
        ours.setblocking(False)
        return ours

    def _send(self, account: Account, what: str, theirs: socket.socket) -> None:
        """Have the zygote fork a child of the account that gets the socket."""
        if self._zygote is None or self._zygote.poll() is not None:
            if self._control is not None:
                self._control.close()
            self.start()
        assert self._control is not None
        groups = ",".join(map(str, account.groups)) or "-"
        message = f"{account.uid} {account.gid} {groups} for {what}".encode()
        socket.send_fds(self._control, [message], [theirs.fileno()])


def _kept() -> dict[str, str]:
    """Return the zygote's part of this process's environment: the variables that HTCondor's code reads."""
    return {name: os.environ[name] for name in ("CONDOR_CONFIG", "TZ") if name in os.environ}


def _error(answer: Json) -> FetchworkError:
    error_class = getattr(errors, str(answer["error"]), FetchworkError)
    error: FetchworkError = error_class(str(answer["message"]))
    return error


async def received(link: socket.socket) -> Json:
    """Return the next frame of a connection; raises EOFError or ConnectionError at its end."""
    head = await _read(link, wire.HEAD)
    return wire.decode(await _read(link, wire.length(head, wire.MAX_ANSWER)))


async def _read(link: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    parts = []
    while size > 0:
        part = await loop.sock_recv(link, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
