"""A proxy before PostgreSQL that can be slow, deaf or cut, and stop at a named point of a conversation.

A point is the call of one SQL function: before the server has seen it, or after it has executed it and before
the answer is sent. Deaths at these points are the interesting ones. "report_runs/exit" is a call of
report_runs that reports an end.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from psycopg.conninfo import make_conninfo

Side = Literal["before", "after"]
Mode = Literal["open", "slow", "deaf", "cut"]

_CALL = re.compile(rb"fetchwork\.([a-z_]+)\(")
# the parts of a call of report_runs; a part that the call lacks has an empty list
_REPORTS = re.compile(rb"\b(accept|start|update|exit)_ids => [^,]*?\{\d")
# ReadyForQuery, which ends every answer
_READY = re.compile(rb"Z\x00\x00\x00\x05[ITE]\Z")


@dataclass
class Trap:
    """Waits for a call of ``function``, runs an action, and cuts the connection unless told to spare it."""

    function: str
    side: Side
    action: Callable[[], Awaitable[None]]
    cuts: bool = True
    sprung: asyncio.Event = field(default_factory=asyncio.Event)


class DatabaseProxy:
    """Listens on a port of its own; ``conninfo`` leads through it."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._server_port = port
        self._address = address
        self.port = 0
        self.mode: Mode = "open"
        self.delay_s = 0.0
        self.traps: list[Trap] = []
        #: calls seen, by function
        self.calls: dict[str, int] = {}
        self.accepted = 0
        #: keeps the port for us while no process listens on it
        self._kept: socket.socket | None = None
        self._listener: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._opened = asyncio.Event()
        self._opened.set()

    async def __aenter__(self) -> "DatabaseProxy":
        self._kept = socket.socket()
        # else the proxy could not listen on it beside this socket
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind((self._address, 0))
        self.port = self._kept.getsockname()[1]
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._hang_up()
        if self._kept is not None:
            self._kept.close()

    def conninfo(self, conninfo: str) -> str:
        """The connection string of the same database, through this proxy."""
        return make_conninfo(conninfo, host=self._address, port=self.port)

    async def set_mode(self, mode: Mode, delay_s: float = 0.0) -> None:
        """``cut``: connections break, new ones are refused; ``deaf``: they stay open, no data passes."""
        self.mode, self.delay_s = mode, delay_s
        if mode == "deaf":
            self._opened.clear()
        else:
            self._opened.set()
        if mode == "cut":
            await self._hang_up()
        elif self._listener is None:
            await self._listen()

    def trap(
        self, function: str, side: Side, action: Callable[[], Awaitable[None]], *, cuts: bool = True
    ) -> Trap:
        """Set a trap for the next call of a function."""
        trap = Trap(function, side, action, cuts)
        self.traps.append(trap)
        return trap

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, self._address, self.port, reuse_address=True)

    async def _hang_up(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        self.accepted += 1
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._opened.wait()
                server = await asyncio.open_connection("127.0.0.1", self._server_port)
                try:
                    await _Link(self, (incoming, outgoing), server).run()
                finally:
                    server[1].close()
        finally:
            outgoing.close()
            self._links.discard(task)


def _called(text: bytes) -> list[str]:
    """The functions that a statement calls; of report_runs also "report_runs/start" and the like."""
    functions = [found.group(1).decode() for found in _CALL.finditer(text)]
    if "report_runs" in functions:
        functions += [f"report_runs/{found.group(1).decode()}" for found in _REPORTS.finditer(text)]
    return functions


class _Statements:
    """The statements that a client runs, read from its messages: as text, or prepared and bound."""

    def __init__(self) -> None:
        self._unread = b""
        self._greeted = False
        self._prepared: dict[bytes, bytes] = {}

    def read(self, data: bytes) -> list[bytes]:
        """The texts, with their parameters in place, of the statements that these data complete."""
        self._unread += data
        texts: list[bytes] = []
        while True:
            # a client's first messages, for TLS and to log in, have no letter
            begin = 1 if self._greeted else 0
            end = begin + int.from_bytes(self._unread[begin : begin + 4])
            if len(self._unread) < max(end, begin + 4):
                return texts
            letter, body = self._unread[:begin], self._unread[begin + 4 : end]
            self._unread = self._unread[end:]
            if not begin:
                # 3.x is the protocol version in a login
                self._greeted = body[:2] == b"\0\3"
            elif letter == b"Q":
                texts.append(body)
            elif letter == b"P":
                name, text, _ = body.split(b"\0", 2)
                self._prepared[name] = text
            elif letter == b"B":
                texts.append(self._bound(body))

    def _bound(self, body: bytes) -> bytes:
        _, name, rest = body.split(b"\0", 2)
        at = 2 + 2 * int.from_bytes(rest[:2])
        values: list[bytes] = []
        for _ in range(int.from_bytes(rest[at : at + 2])):
            length = int.from_bytes(rest[at + 2 : at + 6], signed=True)
            values.append(rest[at + 6 : at + 6 + length] if length >= 0 else b"NULL")
            at += 4 + max(length, 0)
        return re.sub(
            rb"\$(\d+)", lambda found: values[int(found.group(1)) - 1], self._prepared.get(name, b"")
        )


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    def __init__(self, proxy: DatabaseProxy, client: Streams, server: Streams) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.after: Trap | None = None
        self.statements = _Statements()

    async def run(self) -> None:
        pumps = {asyncio.create_task(self._up()), asyncio.create_task(self._down())}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _up(self) -> None:
        while data := await self.client[0].read(65536):
            await self._pause()
            for function in [name for text in self.statements.read(data) for name in _called(text)]:
                self.proxy.calls[function] = self.proxy.calls.get(function, 0) + 1
                trap = self._sprung(function)
                if trap is None:
                    continue
                if trap.side == "after":
                    self.after = trap
                    continue
                await trap.action()
                trap.sprung.set()
                if trap.cuts:
                    return
            self.server[1].write(data)
            await self.server[1].drain()

    async def _down(self) -> None:
        while data := await self.server[0].read(65536):
            await self._pause()
            if self.after is not None and _READY.search(data):
                trap, self.after = self.after, None
                await trap.action()
                trap.sprung.set()
                if trap.cuts:
                    return
            self.client[1].write(data)
            await self.client[1].drain()

    def _sprung(self, function: str) -> Trap | None:
        for trap in self.proxy.traps:
            if trap.function == function:
                self.proxy.traps.remove(trap)
                return trap
        return None

    async def _pause(self) -> None:
        await self.proxy._opened.wait()
        if self.proxy.mode == "slow":
            await asyncio.sleep(self.proxy.delay_s)
