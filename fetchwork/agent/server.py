"""The agent's Unix socket: frames requests, identifies the client, limits its use, and answers.

Every account of the host may connect, since starter hooks run as the jobs' users; the kernel names the
account. An account that is not trusted gets few connections, small bodies, a share of the agent's time, and
answers only about runs whose token it has. A connection that falls silent in the middle of a request is cut.

A request in flight at SIGTERM is finished; a waiting fetch is answered "no work". If a hook goes away while
its fetch is being answered, the run is taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from fetchwork.agent.master import take_over
from fetchwork.agent.signals import Signal, first
from fetchwork.agent.turns import MOST_PAUSE_S, Budgets
from fetchwork.errors import AgentUnavailable, FetchworkError, ProtocolError, one_line
from fetchwork.handlers.context import Answer
from fetchwork.hook.wire import MAX_BODY, MAX_HEAD, Reply, Request, RequestReader, encode_reply
from fetchwork.ipc.listening import listen, who_listens
from fetchwork.ipc.peer import Peer, credentials
from fetchwork.log import event

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 2048
#: the same of one account that is not trusted
MAX_CONNECTIONS_EACH = 64
#: bytes of a body from such an account
MAX_BODY_EACH = 1024 * 1024
#: seconds for a request to arrive, and for a reply to be taken
TRANSFER_S = 10.0
#: seconds that a connection may stay open between two requests
IDLE_S = 60.0
#: seconds for a request that names no deadline
DEADLINE_S = 20.0
#: longest deadline that a hook may name: twice its default, so that an administrator may let it wait longer
MAX_DEADLINES_S = {
    "reply_fetch": 20.0,
    "evict_claim": 20.0,
    "prepare_job": 40.0,
    "job_left": 40.0,
    "update_job_info": 30.0,
    "job_exit": 40.0,
    "chain_first": 40.0,
    "chain_next": 40.0,
}
#: the same for FETCH_WORK, which waits for work
MAX_FETCH_S = 900.0
BACKLOG = 1024

Dispatch = Callable[[Request, Peer, float, Signal], Awaitable[Answer]]


class Server:
    """Listens at ``path``; ``dispatch(request, peer, end, gone)`` answers one request.

    ``owners`` returns the uids of the host's runs.
    """

    def __init__(
        self,
        path: Path,
        dispatch: Dispatch,
        trusted: frozenset[int],
        owners: Callable[[], Iterable[int | None]] = tuple,
    ) -> None:
        self.path = path
        self.dispatch = dispatch
        self.trusted = trusted
        self.connections: set[Connection] = set()
        #: uid -> its connections, those that were used last at the end
        self.accounts: dict[int, dict[Connection, None]] = {}
        self.requests = 0
        self.budgets = Budgets(owners)
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Listen; raises AgentUnavailable if another agent listens, or the socket can't be made."""
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            await asyncio.to_thread(self._clear)
            listener = listen(self.path, BACKLOG)
        except OSError as error:
            raise AgentUnavailable(f"cannot listen at '{self.path}': {error.strerror or error}") from error
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: Connection(self), sock=listener, backlog=BACKLOG)

    def _clear(self) -> None:
        """Remove a killed agent's socket; take a living agent's place if its master is gone."""
        with who_listens(self.path) as other:
            if other is not None:
                take_over(self.path, other)

    async def stop(self, patience_s: float) -> None:
        """Accept no more connections, let requests in flight end for ``patience_s``, then close."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        busy = [connection.work for connection in self.connections if connection.work is not None]
        if busy:
            await asyncio.wait(busy, timeout=patience_s)
        for connection in list(self.connections):
            connection.abort()

    def close_idle(self, uid: int) -> bool:
        """Close the connection of an account's runner that waits longest for its next request; False if none.

        Runners of chains keep one for each slot while a job runs, and connect again.
        """
        idle = next((each for each in self.accounts[uid] if each.idle), None)
        if idle is not None:
            idle.close()
        return idle is not None

    @property
    def busy(self) -> int:
        """The number of requests in flight."""
        return sum(connection.work is not None for connection in self.connections)


class Connection(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.gone = Signal()
        self.work: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._peer: Peer | None = None
        self._reader = RequestReader()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._of_runner = False
        self._ended = False

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Identify the account of a new client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        try:
            assert self._socket is not None
            self._peer = credentials(self._socket)
        except OSError:
            transport.abort()
            return
        trusted = self._peer.uid in self.server.trusted
        self.server.connections.add(self)
        same = self.server.accounts.setdefault(self._peer.uid, {})
        same[self] = None
        crowded = (
            not trusted and len(same) > MAX_CONNECTIONS_EACH and not self.server.close_idle(self._peer.uid)
        )
        if crowded or len(self.server.connections) > MAX_CONNECTIONS:
            self._refuse("unavailable", "too many connections")
            return
        self._reader = RequestReader(MAX_BODY if trusted else MAX_BODY_EACH)
        self._set_timer(TRANSFER_S)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self._ended:
            return
        if self.work is not None:
            # a client waits for its reply before its next request: little may arrive before that
            self._waiting += len(data)
            if self._waiting > MAX_HEAD:
                self.abort()
                return
        self._reader.feed(data)
        if self.work is None:
            self._next()

    def eof_received(self) -> bool:
        """Note that the client sends no more; it may still read."""
        self._ended = True
        if self._hung_up():
            self.gone.set()
            return False
        # keep the connection for the reply to the request in flight
        return self.work is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client, which is gone."""
        self.gone.set()
        if self._timer is not None:
            self._timer.cancel()
        if self in self.server.connections:
            self.server.connections.discard(self)
            assert self._peer is not None
            del self.server.accounts[self._peer.uid][self]
            if not self.server.accounts[self._peer.uid]:
                del self.server.accounts[self._peer.uid]

    # -- requests

    def _next(self) -> None:
        try:
            request = self._reader.next_request()
        except ProtocolError as error:
            self._refuse("bad_request", str(error))
            return
        if request is None:
            self._set_timer(IDLE_S if self._reader.empty else TRANSFER_S, restart=self._reader.empty)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting = 0
        self.work = asyncio.ensure_future(self._answer(request))

    async def _answer(self, request: Request) -> None:
        assert self._peer is not None and self._transport is not None
        self.server.requests += 1
        deadline_s = self._deadline_s(request)
        end = time.monotonic() + deadline_s
        if not await self._may_begin(request):
            return
        try:
            # every handler keeps its deadline by itself; this timeout is for a handler that fails to
            async with asyncio.timeout(deadline_s + 1.0):
                answer = await self.server.dispatch(request, self._peer, end, self.gone)
        except TimeoutError:
            answer = Answer(Reply(code="unavailable", message="no answer in time"), "unavailable")
        if self._hung_up():
            self.gone.set()
        if self.gone.is_set():
            await self._undo(answer)
            self.abort()
            return
        try:
            self._transport.write(encode_reply(answer.reply))
        except ProtocolError as error:
            await self._undo(answer)
            self._refuse("failed", str(error))
            return
        self.work = None
        if self._ended:
            self._transport.close()
        else:
            self._of_runner = request.name in ("chain_first", "chain_next")
            same = self.server.accounts[self._peer.uid]
            same[self] = same.pop(self)
            self._set_timer(TRANSFER_S if self._transport.get_write_buffer_size() else IDLE_S)
            self._next()

    async def _may_begin(self, request: Request) -> bool:
        """Wait until the account's budget has room for a request; False if the request gets no further."""
        assert self._peer is not None
        uid = self._peer.uid
        if uid in self.server.trusted:
            return True
        pause_s = self.server.budgets.pause_s(uid, request, time.monotonic())
        if not pause_s:
            return True
        await first(min(pause_s, MOST_PAUSE_S), self.gone)
        if self.gone.is_set():
            self.abort()
            return False
        if pause_s > MOST_PAUSE_S:
            self._refuse("unavailable", f"too many requests of uid {uid}")
            return False
        return True

    def _deadline_s(self, request: Request) -> float:
        """Return the seconds for the answer: those that the request names, up to a limit."""
        assert self._peer is not None
        may_wait = request.name == "fetch_work" and self._peer.uid in self.server.trusted
        most_s = MAX_FETCH_S if may_wait else MAX_DEADLINES_S.get(request.name, DEADLINE_S)
        return min(request.deadline_ms / 1000 if request.deadline_ms else DEADLINE_S, most_s)

    async def _undo(self, answer: Answer) -> None:
        if answer.undo is None:
            return
        try:
            await answer.undo()
        except FetchworkError as error:
            # the offer is withdrawn later, at its own deadline
            event(log, logging.WARNING, "offer_not_withdrawn", problem=error)

    def _refuse(self, code: str, message: str) -> None:
        """Reply with the reason, and close."""
        assert self._transport is not None
        self._ended = True
        uid = self._peer.uid if self._peer else None
        event(log, logging.WARNING, "refused", person=uid, uid=uid, code=code, problem=message)
        self._transport.write(encode_reply(Reply(code=code, message=one_line(message))))
        self._set_timer(TRANSFER_S)
        self._transport.close()

    @property
    def idle(self) -> bool:
        """Whether it waits for the next request of a chain's runner."""
        assert self._transport is not None
        waits = self._of_runner and self.work is None and self._reader.empty
        return waits and not self._transport.is_closing()

    def close(self) -> None:
        """Close it; the client sees that no request was read."""
        assert self._transport is not None
        self._transport.close()

    def abort(self) -> None:
        """Drop the connection."""
        self.gone.set()
        if self._transport is not None:
            self._transport.abort()

    def _set_timer(self, seconds: float, *, restart: bool = True) -> None:
        if self._timer is not None:
            if not restart:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _hung_up(self) -> bool:
        """Whether the client no longer reads either, so that no answer can be delivered."""
        if self._socket is None or self._transport is None or self._transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self._socket.fileno(), 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
