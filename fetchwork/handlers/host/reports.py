"""Hooks' reports of runs, gathered: reports that arrive during a call travel together in the next one.

A lone report goes at once. On a busy host starts, updates and ends coincide; then one call of
``report_runs`` carries them, so that PostgreSQL has one transaction and one wait for the disk for all. That
call skips some reports (the run is over, to be ended, or locked by another transaction; the report is a
repetition). Each skipped report, and each report of a call that was refused as a whole, then gets a call of
its own, to the function that waits or gives the reason. Each gets its own answer, within its own time.

An accept writes nothing by itself: the start, which comes within a second, carries it. Only the accept of a
run that has not started by then is written, so that its job counts as one that could not start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from fetchwork.db.calls import runs
from fetchwork.db.calls.call import Call, JsonObject
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, FetchworkError, one_line

T = TypeVar("T")

Hook = Literal["accept", "start", "update", "exit"]

#: the next call waits for the last one for at most so long; and the most calls at a time
GATHER_S = 0.005
MOST_CALLS = 2
#: the most reports of one call
MOST_REPORTS = 200
#: a run that has not started this long after its accept is recorded as accepted
ACCEPT_S = 1.0
#: seconds that a call for accepts alone may take
ACCEPTS_CALL_S = 5.0


@dataclass(slots=True, eq=False)
class _Waiting:
    hook: Hook
    run_id: int
    token: str
    end: float
    #: of an update or exit
    report: JsonObject = field(default_factory=dict)
    #: of a start
    starter: str | None = None
    slot: str | None = None
    #: of an accept or start: monotonic time of the accept, None if unknown
    accepted_at: float | None = None
    #: True: done; False: needs a call of its own
    done: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RunReports:
    """The reports of the runs of one host to one database."""

    def __init__(self, database: AsyncDatabase) -> None:
        self._database = database
        self._waiting: list[_Waiting] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._called_at = 0.0
        self._later: asyncio.TimerHandle | None = None
        # by run: its token, and when the startd accepted it
        self._accepts: dict[int, tuple[str, float]] = {}
        self._accepting: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Cancel all calls; waiting reports fail because the database is closed."""
        if self._later is not None:
            self._later.cancel()
        tasks = [*self._calls, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting:
            _fail(waiting, "database connection is closed")
        self._waiting.clear()

    # -- reports of handlers

    def accepted(self, run_id: int, token: str) -> None:
        """Note that the startd accepted a run; written with its start, or after ``ACCEPT_S``."""
        self._accepts.setdefault(run_id, (token, time.monotonic()))
        if self._accepting is None or self._accepting.done():
            self._accepting = asyncio.ensure_future(self._write_old_accepts())

    async def start(
        self, *, run_id: int, token: str, starter: str | None, slot: str | None, timeout_s: float
    ) -> str | None:
        """As ``runs.start``: None if the job may start, else the reason against it."""
        end = time.monotonic() + timeout_s
        _, accepted_at = self._accepts.pop(run_id, (token, None))
        waiting = _Waiting("start", run_id, token, end, starter=starter, slot=slot, accepted_at=accepted_at)
        if await self._gathered(waiting):
            return None
        return await self._alone(runs.start(run_id=run_id, token=token, starter=starter, slot=slot), end)

    async def update(self, *, run_id: int, token: str, report: JsonObject, timeout_s: float) -> runs.Beat:
        """As ``runs.heartbeat``."""
        end = time.monotonic() + timeout_s
        if await self._gathered(_Waiting("update", run_id, token, end, report)):
            return runs.Beat(None, None)
        return await self._alone(runs.heartbeat(run_id=run_id, token=token, report=report), end)

    async def finish(
        self,
        *,
        run_id: int,
        token: str,
        hook_reason: str,
        report: JsonObject,
        verdict: Mapping[str, object] | None,
        timeout_s: float,
    ) -> str:
        """As ``runs.finish``: return the outcome."""
        end = time.monotonic() + timeout_s
        if (
            hook_reason == "exit"
            and verdict is None
            and await self._gathered(_Waiting("exit", run_id, token, end, report))
        ):
            return "completed"
        return await self._alone(
            runs.finish(run_id=run_id, token=token, hook_reason=hook_reason, report=report, verdict=verdict),
            end,
        )

    async def write_accepts(self, *, older_s: float = 0.0) -> None:
        """Write the accepts of runs that have not started; a call may depend on them."""
        now = time.monotonic()
        due = {run: accept for run, accept in self._accepts.items() if now - accept[1] >= older_s}
        for run in due:
            del self._accepts[run]
        end = now + ACCEPTS_CALL_S
        await asyncio.gather(*(self._write_accept(run, *accept, end) for run, accept in due.items()))

    # -- inside

    async def _write_old_accepts(self) -> None:
        while self._accepts:
            oldest = min(at for _, at in self._accepts.values())
            # with a pause after an accept that could not be written
            await asyncio.sleep(max(ACCEPT_S / 4, oldest + ACCEPT_S - time.monotonic()))
            await self.write_accepts(older_s=ACCEPT_S)

    async def _write_accept(self, run_id: int, token: str, accepted_at: float, end: float) -> None:
        try:
            if not await self._gathered(_Waiting("accept", run_id, token, end, accepted_at=accepted_at)):
                await self._alone(runs.accept(run_id=run_id, token=token), end)
        except DatabaseUnavailable:
            # the start may come yet, or the next round writes it
            self._accepts.setdefault(run_id, (token, accepted_at))
        except FetchworkError:
            # a run that PostgreSQL forgot in a crash
            pass

    async def _alone(self, call: Call[T], end: float) -> T:
        return await self._database.run(call, timeout_s=max(0.05, end - time.monotonic()))

    async def _gathered(self, waiting: _Waiting) -> bool:
        """Whether the next call carried the report; if not, it needs a call of its own."""
        self._waiting.append(waiting)
        self._go()
        # leave the call the time to report its own timeout
        patience_s = max(0.0, waiting.end - time.monotonic()) + 0.3
        problem = "database does not answer: nothing came in the time of the call"
        over = asyncio.get_running_loop().call_later(patience_s, _fail, waiting, problem)
        try:
            return await waiting.done
        finally:
            over.cancel()

    def _go(self) -> None:
        """Begin a call, if one is due."""
        if not self._waiting or len(self._calls) >= MOST_CALLS:
            return
        wait_s = self._called_at + GATHER_S - time.monotonic() if self._calls else 0.0
        if wait_s > 0:
            if self._later is None:
                self._later = asyncio.get_running_loop().call_later(wait_s, self._go_later)
            return
        self._called_at = time.monotonic()
        call = asyncio.ensure_future(self._call())
        self._calls.add(call)
        call.add_done_callback(self._called)

    def _go_later(self) -> None:
        self._later = None
        self._go()

    def _called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            self._go()

    async def _call(self) -> None:
        # reports of the same turn of the event loop go with it
        await asyncio.sleep(0)
        batch = self._next_batch()
        if not batch:
            return
        by_hook: dict[Hook, list[_Waiting]] = {"accept": [], "start": [], "update": [], "exit": []}
        for waiting in batch:
            by_hook[waiting.hook].append(waiting)
        now = time.monotonic()
        accepts, starts, updates, exits = by_hook.values()
        call = runs.report_runs(
            accept_ids=[one.run_id for one in accepts],
            accept_tokens=[one.token for one in accepts],
            accepted_s=[now - one.accepted_at if one.accepted_at is not None else 0.0 for one in accepts],
            start_ids=[one.run_id for one in starts],
            start_tokens=[one.token for one in starts],
            starters=[one.starter for one in starts],
            slots=[one.slot for one in starts],
            started_accepted_s=[
                now - one.accepted_at if one.accepted_at is not None else None for one in starts
            ],
            update_ids=[one.run_id for one in updates],
            update_tokens=[one.token for one in updates],
            updates=[one.report for one in updates],
            exit_ids=[one.run_id for one in exits],
            exit_tokens=[one.token for one in exits],
            exits=[one.report for one in exits],
        )
        try:
            result = await self._alone(call, max(waiting.end for waiting in batch))
        except DatabaseUnavailable as error:
            for waiting in batch:
                _fail(waiting, str(error))
        except FetchworkError:
            # one report is at fault, and gets its error in a call of its own
            for waiting in batch:
                _resolve(waiting, False)
        except asyncio.CancelledError:
            for waiting in batch:
                _fail(waiting, "database connection is closed")
            raise
        else:
            done: dict[Hook, list[int] | None] = {
                "accept": result.accepted,
                "start": result.started,
                "update": result.renewed,
                "exit": result.finished,
            }
            for hook, waitings in by_hook.items():
                numbers = set(done[hook] or ())
                for number, waiting in enumerate(waitings, 1):
                    _resolve(waiting, number in numbers)

    def _next_batch(self) -> list[_Waiting]:
        """Take the waiting reports; a second report of the same hook and run stays for the next call."""
        batch: dict[tuple[Hook, int], _Waiting] = {}
        left: list[_Waiting] = []
        for waiting in self._waiting:
            key = (waiting.hook, waiting.run_id)
            if waiting.done.done():
                continue
            if key in batch or len(batch) >= MOST_REPORTS:
                left.append(waiting)
            else:
                batch[key] = waiting
        self._waiting = left
        return list(batch.values())


def _resolve(waiting: _Waiting, done: bool) -> None:
    if not waiting.done.done():
        waiting.done.set_result(done)


def _fail(waiting: _Waiting, problem: str) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(DatabaseUnavailable(one_line(problem, 500)))
