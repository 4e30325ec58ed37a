"""A simulated hook process: its request to the agent, and its behaviour without an answer.

The protocol is the real one. If the agent does not answer, it does the same as a hook executable:
FETCH_WORK brings no work, PREPARE_JOB refuses, JOB_EXIT leaves its report in the spool.

A fault harness sees each step of each hook (``Step``) and may end the hook there, or do anything else.
"""

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from fetchwork.errors import AgentUnavailable, FetchworkError, ProtocolError
from fetchwork.hook.spool import write_report
from fetchwork.hook.wire import Reply, ReplyReader, Request, encode_request
from fetchwork.simulate.behaviour import Clock
from fetchwork.simulate.family import Actor
from fetchwork.simulate.ledger import Ledger

#: seconds that each hook waits for the agent (PROTOCOL.md)
DEADLINES_S = {
    "fetch_work": 75.0,
    "reply_fetch": 10.0,
    "evict_claim": 10.0,
    "prepare_job": 20.0,
    "update_job_info": 15.0,
    "job_exit": 20.0,
    "chain_first": 20.0,
    "chain_next": 20.0,
}
#: requests of a chain's runner, which repeats them while its connections break
_OF_RUNNER = ("chain_first", "chain_next")
#: seconds before a runner asks again
_AGAIN_S = 0.25
PHASES = ("begin", "sent", "answered")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: opens a connection to the agent for a hook that this process started; None: for the simulation's own
Connect = Callable[[Actor | None], Awaitable[Streams]]


class HookKilled(Exception):
    """Raised by a fault harness: the hook gets SIGKILL at this step."""


class FetchingSlot(Protocol):
    """The slot that a hook is called for, as a fault harness sees it."""

    number: int
    name: str

    def kill_starter(self) -> None:
        """SIGKILL to the slot's starter."""


class Step(NamedTuple):
    """The progress of a hook: before it has connected, with its request sent, or answered."""

    hook: str
    phase: str
    slot: FetchingSlot


#: called at each step; the hook stands still until what it returns is awaited
Watch = Callable[[Step], Awaitable[None] | None]
#: exit status of a hook that was killed
KILLED = -9


class Outcome(NamedTuple):
    """A hook's result for HTCondor, and its source: the agent, the spool, or neither."""

    stdout: bytes = b""
    exit: int = 0
    signal: int = 0
    pid: int = 0
    answered_by: str = "agent"


def allow_connections() -> None:
    """Let this process, and the agents that it starts, have as many connections at once as the system allows.

    A slot has one for each hook that runs; by default a process may open 1024 files.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def connect_to(path: Path | str) -> Connect:
    """Connections to an agent's socket that come from this very process."""

    async def connect(_: Actor | None) -> Streams:
        return await asyncio.open_unix_connection(str(path))

    return connect


class Hooks:
    """The hooks of one keyword on one host."""

    def __init__(
        self,
        connect: Connect,
        *,
        keyword: str,
        spool: Path | None,
        clock: Clock,
        ledger: Ledger,
        start_s: float = 0.02,
        deadlines_s: dict[str, float] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.keyword = keyword
        self.ledger = ledger
        self._connect = connect
        self._spool = spool
        self._clock = clock
        self._start_s = start_s
        self._deadlines_s = {**DEADLINES_S, **(deadlines_s or {})}
        self._watch = watch

    async def call(
        self,
        name: str,
        body: bytes,
        *,
        slot: FetchingSlot,
        arg: str = "",
        check: str = "",
        starter_slot: str = "",
        parent: Actor | None = None,
    ) -> Outcome:
        """Run one hook to its end; ``parent`` is the process that started it, if processes are real.

        A request of a runner counts as a hook here; it has no spool (PROTOCOL.md).
        """
        began = time.monotonic()
        request = Request(
            name,
            body,
            keyword=self.keyword,
            arg=arg,
            slot=starter_slot,
            deadline_ms=int(self._deadlines_s[name] * 1000),
            check=check,
        )
        try:
            await self._step(name, "begin", slot)
            if name not in _OF_RUNNER:
                await self._clock.sleep(self._start_s)
            reply = await self._ask_until(began + self._deadlines_s[name], request, slot, parent)
        except HookKilled:
            self.ledger.counts[f"{name} killed"] += 1
            return Outcome(exit=KILLED, answered_by="none")
        except FetchworkError:
            self.ledger.counts[f"{name} unanswered"] += 1
            return self._undelivered(request)
        if reply.code:
            self.ledger.counts[f"{name} error {reply.code}"] += 1
            return self._undelivered(request, spool=reply.code not in ("bad_request", "denied"))
        # a hook that waits for work is not slow
        if name != "fetch_work" or reply.body:
            self.ledger.hook(name, time.monotonic() - began)
        return Outcome(reply.body, reply.exit, reply.signal, reply.pid)

    async def _ask_until(
        self, end: float, request: Request, slot: FetchingSlot, parent: Actor | None
    ) -> Reply:
        while True:
            try:
                return await self._ask(request, slot, parent, end - time.monotonic())
            except FetchworkError:
                if request.name not in _OF_RUNNER or time.monotonic() + _AGAIN_S >= end:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _ask(
        self, request: Request, slot: FetchingSlot, parent: Actor | None, timeout_s: float
    ) -> Reply:
        try:
            async with asyncio.timeout(timeout_s):
                streams = await self._connect(parent)
                try:
                    reply = await self._exchange(streams, request, slot)
                    await self._step(request.name, "answered", slot)
                    return reply
                finally:
                    streams[1].close()
        except TimeoutError:
            raise AgentUnavailable("agent does not answer") from None
        except OSError as error:
            raise AgentUnavailable(f"agent does not answer: {error.strerror}") from None

    async def _exchange(self, streams: Streams, request: Request, slot: FetchingSlot) -> Reply:
        incoming, outgoing = streams
        outgoing.write(encode_request(request))
        await outgoing.drain()
        await self._step(request.name, "sent", slot)
        reader = ReplyReader()
        while True:
            data = await incoming.read(65536)
            if not data:
                raise ProtocolError("agent closed the connection before it answered")
            reader.feed(data)
            if (reply := reader.next_reply()) is not None:
                return reply

    async def _step(self, hook: str, phase: str, slot: FetchingSlot) -> None:
        still = None if self._watch is None else self._watch(Step(hook, phase, slot))
        if still is not None:
            await still

    def _undelivered(self, request: Request, spool: bool = True) -> Outcome:
        if request.name == "fetch_work":
            return Outcome(answered_by="none")
        if request.name == "job_exit" and self._spool is not None and spool:
            try:
                write_report(str(self._spool), request)
            except FetchworkError:
                self.ledger.counts["job_exit not spooled"] += 1
                return Outcome(exit=1, answered_by="none")
            return Outcome(answered_by="spool")
        status = b"HookStatusCode = 350\n" if request.name == "prepare_job" else b""
        return Outcome(status, exit=1, answered_by="none")
