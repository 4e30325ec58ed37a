"""What a handler is given: the request, who asks, whose queue it is, and the runs that this process knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fetchwork.errors import FetchworkError
from fetchwork.handlers.keywords import KeywordContext
from fetchwork.handlers.session import HostSession
from fetchwork.hook.wire import Reply, Request
from fetchwork.matching.fit import SlotView


class Denied(FetchworkError):
    """The caller's account gives no right to this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end, as the kernel tells.

    ``trusted`` is the startd's account, root, or the agent's own. ``starter`` is the identity of the process
    that started the hook ("pid:start time"), None where it can't be seen.
    """

    uid: int
    trusted: bool
    starter: str | None = None


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run that this process has had to do with and that has not ended, as far as it knows."""

    run_id: int
    token: str
    context: KeywordContext
    slot: str
    job: str
    owner: str
    #: the account's number on this host, None where it is not known
    owner_uid: int | None = None
    state: str = "reserved"
    #: monotonic time of REPLY_FETCH's accept, where this process heard it
    accepted_at: float = float("-inf")
    has_policy: bool = False
    starter: str | None = None
    #: the job's process: "pid:start time"
    job_process: str | None = None
    #: why fetchwork itself has ended the job, so that its exit says nothing about the job
    ended_by_us: str | None = None
    #: JOB_EXITs being worked on
    exiting: int = 0
    #: why PREPARE_JOB could not be answered, so that not having started says nothing about the job
    unanswered: str | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __repr__(self) -> str:
        # never the token
        return f"<run {self.run_id} of job {self.job}, {self.state} on {self.slot}>"


class Runs:
    """The live runs of this host that this process knows. The agent's own form of it watches their starters.

    In direct mode it is empty and forgotten at the end: everything that matters is in the database.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[HostSession, int], LiveRun] = {}

    def __iter__(self) -> Any:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, session: HostSession, run_id: int) -> LiveRun | None:
        """The live run with this id."""
        return self._runs.get((session, run_id))

    def on_slot(self, session: HostSession, slot: str) -> list[LiveRun]:
        """The live runs on a slot."""
        return [run for run in self._runs.values() if run.slot == slot and run.context.session is session]

    def offered(self, run: LiveRun) -> None:
        """A job was claimed for a slot."""
        self._runs[run.context.session, run.run_id] = run

    def accepted(self, run: LiveRun) -> None:
        """The startd said accept."""
        if run.state == "reserved":
            run.state = "accepted"
            run.accepted_at = time.monotonic()
        run.changed.set()

    def started(self, run: LiveRun, starter: str | None, slot: str) -> None:
        """The run passed the fence."""
        run.state = "running"
        run.starter = starter
        run.slot = slot
        run.changed.set()

    def reported(self, run: LiveRun, job_pid: int) -> None:
        """An update told the number of the job's process."""

    def ended(self, session: HostSession, run_id: int) -> None:
        """The run is over."""
        run = self._runs.pop((session, run_id), None)
        if run is not None:
            run.state = "ended"
            run.changed.set()

    async def slot_asks(self, context: KeywordContext, slot: str, timeout_s: float) -> bool:
        """A free, undivided slot asks for work: what it ran is over. False if something of it lives on."""
        greeting = await context.session.hello(timeout_s)
        await context.session.database.scalar(
            "slot_is_free", timeout_s=timeout_s, host_id=greeting.host_id, slot=slot
        )
        return True

    async def until_free(self, context: KeywordContext, slot: str, held: HeldFetch, left_s: float) -> bool:
        """Wait until the starter of a busy slot is gone; False if it lives on, or is none of ours."""
        return False


@dataclass(slots=True)
class Task:
    """One request, and all that its handler may use."""

    request: Request
    caller: Caller
    context: KeywordContext
    runs: Runs
    #: monotonic time at which the answer is worth nothing any more
    end: float
    #: asks for permission to let the fetch of this slot wait for work; None: don't wait
    hold: Callable[[str], HeldFetch | None] = lambda slot: None
    #: keeps a report that can't be delivered now; None: the hook does
    spool: Callable[[Request], None] | None = None

    def run(self, run_id: int) -> LiveRun | None:
        """The run of this id, if this process knows it; raises Denied if it is another account's."""
        run = self.runs.get(self.context.session, run_id)
        if run is not None and not self.caller.trusted and run.owner_uid not in (None, self.caller.uid):
            raise Denied(f"run {run_id} does not belong to uid {self.caller.uid}")
        return run

    def left(self, most_s: float = float("inf"), reserve_s: float = 0.3) -> float:
        """Seconds that a call may take: what is left but a reserve for answering, and ``most_s`` at most."""
        return max(0.05, min(most_s, self.end - time.monotonic() - reserve_s))


class HeldFetch:
    """A fetch that waits for work. The agent's own form of it is woken, counted and cut short."""

    #: the slot that waits, where it could be given a job at once
    offer: SlotView | None = None

    def others(self) -> Sequence[SlotView]:
        """Slots that wait beside this one for work from the same database."""
        return ()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until a look may be worth while; False if the fetch has to end now."""
        raise NotImplementedError

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait for ``event``; False if it did not come in time, or the fetch has to end now."""
        raise NotImplementedError

    def release(self) -> None:
        """The fetch waits no more."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply, what the log line says, and what undoes the request if the reply cannot be delivered."""

    reply: Reply
    fields: dict[str, Any] = field(default_factory=dict)
    undo: Callable[[], Awaitable[None]] | None = None
