"""The access point's side of the zygote and its children: starts, requests and ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from fetchwork import errors
from fetchwork.errors import FetchworkError
from fetchwork.ipc.frames import Json
from fetchwork.ipc.link import Link, Zygote

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
    link: Link
    used_at: float = field(default_factory=time.monotonic)
    uses: int = 0


class Children:
    """One zygote, and for each account and purpose one child, which serves one request at a time."""

    def __init__(self, min_uid: int) -> None:
        self._zygote = Zygote("fetchwork.accesspoint.zygote", str(min_uid))
        self._idle: dict[tuple[int, str], _Child] = {}
        #: children for commands that run no command now
        self._idle_commands: defaultdict[Account, list[_Child]] = defaultdict(list)
        self._turns: dict[tuple[int, str], asyncio.Lock] = {}
        self._room = asyncio.Semaphore(MOST)

    def start(self) -> None:
        """Start the zygote; called before this process has secrets."""
        self._zygote.start()

    async def stop(self) -> None:
        """End the zygote, and the children with it."""
        for key in list(self._idle):
            self._idle.pop(key).link.close()
        for children in self._idle_commands.values():
            for child in children:
                child.link.close()
        self._idle_commands.clear()
        await self._zygote.close()

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

        A frame with ``want`` is a question of the child: ``wanted`` gives the reply.
        """
        key = (account.uid, request["do"])
        async with self._turns.setdefault(key, asyncio.Lock()), self._room:
            child = self._idle.pop(key, None) or _Child(self._fork(account, "request"))
            whole = False
            try:
                async with asyncio.timeout(timeout_s):
                    await child.link.send(request)
                    several = request["do"] == "describe"
                    while not whole:
                        answer = await self._receive(child.link, account)
                        if "want" in answer and wanted is not None:
                            await child.link.send(await wanted(answer["want"]))
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

    @staticmethod
    async def _receive(link: Link, account: Account) -> Json:
        try:
            return await link.receive()
        except (ConnectionError, EOFError):
            raise ChildEnded(
                f"the process that does this for '{account.name}' ended: it took too long, or too much memory"
            ) from None

    def supervisor(self, account: Account) -> Link:
        """Return the link to a new supervisor of one job of an account (``supervisor``)."""
        return self._fork(account, "job")

    async def command(self, account: Account, connection: socket.socket) -> None:
        """Have a child run the command that comes over ``connection`` (``command``), and close it here.

        Returns when the command or its child has ended.
        """
        child = self._commanded(account, connection)
        # so that the end of the child closes the program's connection
        connection.close()
        ended = False
        try:
            ended = bool(await asyncio.get_running_loop().sock_recv(child.link.socket, 1))
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
        idle = self._idle_commands.get(account, [])
        while True:
            # take the one that was used last, so that the others become idle and end
            known = bool(idle)
            child = idle.pop() if idle else _Child(self._fork(account, f"commands {account.name}"))
            try:
                socket.send_fds(child.link.socket, [b"c"], [connection.fileno()])
                return child
            except OSError:
                child.link.close()
                if not known:
                    raise
                # an idle child has ended meanwhile

    def _fork(self, account: Account, what: str) -> Link:
        groups = ",".join(map(str, account.groups)) or "-"
        return self._zygote.fork(f"{account.uid} {account.gid} {groups} for {what}")


def _error(answer: Json) -> FetchworkError:
    error_class = getattr(errors, str(answer["error"]), FetchworkError)
    error: FetchworkError = error_class(str(answer["message"]))
    return error
