"""The access point's Unix socket: every account may connect, and the kernel names the connecting account.

Each account has limits (``budgets``), and each connection has time limits: its request must arrive, and its
answer be read, at a certain pace. An answer is made page by page as its reader takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from fetchwork.accesspoint.budgets import LARGE, Budget, Budgets
from fetchwork.client.link import MAX_REQUEST
from fetchwork.errors import AccessPointUnavailable, FetchworkError, ProtocolError, one_line
from fetchwork.ipc import frames
from fetchwork.ipc.listening import listen, who_listens
from fetchwork.ipc.peer import Peer, credentials
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds until an idle connection is closed, for a request to arrive, and for a page to be taken
IDLE_S = 60.0
ARRIVE_S = 30.0
TAKE_S = 60.0
#: seconds between two progress frames, and most unread bytes of such frames
MOVED_S = 0.2
MOST_HINTS = 64 * 1024
BACKLOG = 1024


class Channel:
    """One connection, as an answer uses it."""

    def __init__(self, peer: Peer, budget: Budget, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.budget = budget
        self._writer = writer

    @property
    def gone(self) -> bool:
        """Whether the client has stopped reading."""
        return self._writer.transport.is_closing()

    def hint(self, frame: bytes) -> None:
        """Send a frame that is dropped if the client does not read."""
        if not self.gone and self._writer.transport.get_write_buffer_size() < MOST_HINTS:
            self._writer.write(frame)

    async def send(self, *parts: bytes) -> None:
        """Send frames, and wait until there is room for more; raises ConnectionError."""
        # Python 3.13's writelines ends in a TypeError once the connection is lost
        if self.gone:
            raise ConnectionResetError("the client has stopped reading the answer")
        self._writer.writelines(parts)
        try:
            async with asyncio.timeout(TAKE_S):
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()
            raise ConnectionAbortedError("the answer is not read") from None


class Moving:
    """Tells the client the bytes moved so far and their total, now and then; callable from any thread."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0

    def __call__(self, moved: int, total: int) -> None:
        """Report the bytes moved so far, and their total."""
        now = time.monotonic()
        if now < self._next_at and moved < total:
            return
        self._next_at = now + MOVED_S
        frame = frames.encode({"page": [], "moved": moved, "total": total})
        self._loop.call_soon_threadsafe(self._channel.hint, frame)


class _Protocol(asyncio.StreamReaderProtocol):
    """Notices the end of a connection while an answer is made: until then a client sends nothing more."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        super().__init__(reader, connected)
        self.ended = asyncio.Event()

    def eof_received(self) -> bool:
        """Note that the client has closed its end."""
        self.ended.set()
        super().eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self.ended.set()
        super().connection_lost(exc)


Dispatch = Callable[[dict[str, object], Channel], Awaitable[None]]


class Server:
    """Listens at ``path``; ``dispatch(request, channel)`` answers one request."""

    def __init__(self, path: Path, dispatch: Dispatch) -> None:
        self.path = path
        self._dispatch = dispatch
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.budgets = Budgets()
        self.requests = 0

    @property
    def connections(self) -> int:
        """The number of connections."""
        return len(self._connections)

    async def start(self) -> None:
        """Listen; raises AccessPointUnavailable if another access point does, or the socket can't be made."""
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._clear()
            listener = listen(self.path, BACKLOG)
        except OSError as error:
            raise AccessPointUnavailable(
                f"cannot listen at '{self.path}': {error.strerror or error}"
            ) from error
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: _Protocol(asyncio.StreamReader(), self._connected), sock=listener, backlog=BACKLOG
        )

    def _clear(self) -> None:
        """Remove the socket that a killed access point left behind."""
        with who_listens(self.path) as other:
            if other is not None:
                pid = credentials(other).pid
                raise AccessPointUnavailable(f"another access point listens at '{self.path}', pid {pid}")

    async def stop(self, patience_s: float) -> None:
        """Accept no more connections, let requests in flight end, close."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        if self._connections:
            await asyncio.wait(self._connections, timeout=patience_s)
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=patience_s)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            peer = credentials(writer.get_extra_info("socket"))
            try:
                budget = self.budgets.enter(peer.uid)
            except FetchworkError as error:
                writer.write(failure(error))
                return
            try:
                protocol = writer.transport.get_protocol()
                assert isinstance(protocol, _Protocol)
                await self._serve(reader, Channel(peer, budget, writer), protocol.ended)
            finally:
                self.budgets.leave(peer.uid)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, channel: Channel, ended: asyncio.Event) -> None:
        while self._server is not None and self._server.is_serving():
            async with asyncio.timeout(IDLE_S):
                head = await reader.readexactly(frames.HEAD)
            try:
                request = await self._request(reader, head, channel.budget)
            except ProtocolError as error:
                event(
                    log,
                    logging.WARNING,
                    "refused",
                    person=channel.peer.uid,
                    uid=channel.peer.uid,
                    problem=error,
                )
                await channel.send(failure(error))
                return
            self.requests += 1
            answer = asyncio.ensure_future(self._dispatch(request, channel))
            gone = asyncio.ensure_future(ended.wait())
            try:
                await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                if not answer.done():
                    answer.cancel()
                    await asyncio.wait({answer})
            if answer.cancelled():
                return
            answer.result()

    @staticmethod
    async def _request(reader: asyncio.StreamReader, head: bytes, budget: Budget) -> dict[str, object]:
        size = frames.length(head, MAX_REQUEST)
        async with budget.large if size > LARGE else contextlib.nullcontext(), asyncio.timeout(ARRIVE_S):
            return frames.decode(await reader.readexactly(size))


def failure(error: Exception) -> bytes:
    """Return the frame that reports an error."""
    error_class = type(error).__name__
    return frames.encode({"error": error_class, "message": "\n".join(map(one_line, str(error).split("\n")))})
