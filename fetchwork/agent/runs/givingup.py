"""Gives up runs whose report will not come, by what their starters wrote down, if anything.

One whose JOB_EXIT has not come gets a second of grace, for a report that is still on its way or lies in the
spool. It is not given up while its job lives on without a starter, nor before what it leaves is delivered.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import orphans
from fetchwork.db.calls import runs as run_calls
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.handlers.host.runs import LiveRun, Runs
from fetchwork.handlers.host.starterlog import Fault
from fetchwork.handlers.requests.start import could_not_start
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: a JOB_EXIT may still be on its way after its starter's end
GRACE_S = 1.0
CALL_S = 5.0
#: whether what a run leaves is delivered is looked for again at this interval
DELIVERING_S = 0.5


class GivingUp:
    """Ends live ``runs`` without a report; ``replay`` delivers what is spooled, by ``rights`` orphans end."""

    def __init__(self, runs: Runs, replay: Callable[[], Awaitable[None]], rights: SignalRights) -> None:
        self._runs = runs
        self._replay = replay
        self._rights = rights

    async def after_grace(self, run: LiveRun, grace_s: float = GRACE_S) -> None:
        """Give up a run whose starter is gone, once nothing can come of it any more."""
        await asyncio.sleep(grace_s)
        while not run.ended:
            try:
                if run.exiting:
                    await asyncio.sleep(0.05)
                    continue
                await self._replay()
                if run.ended:
                    return
                if run.delivering or run.saving:
                    # its end is known, and comes after its files; or its next run wants what it has saved
                    await asyncio.sleep(DELIVERING_S)
                    continue
                if orphans.of_run(run):
                    await orphans.end_of_run(run, self._rights)
                    continue
                await self._end_without_report(run, await run.context.starter_fault(run.run_id, run.token))
            except DatabaseUnavailable:
                await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
                continue
            except FetchworkError as error:
                event(log, logging.ERROR, "starter_gone", run=run.run_id, problem=error)
            event(
                log,
                logging.INFO if run.ended_waiting else logging.WARNING,
                "run_withdrawn" if run.ended_waiting else "run_given_up",
                run=run.run_id,
                job=run.job,
                slot=run.slot,
                by="starter_gone",
            )
            self._runs.ended(run.context.session, run.run_id)

    async def look_into_start(self, run: LiveRun) -> None:
        """End a run whose starter failed before it called a hook, or called none any more, if it says so."""
        state = run.state
        fault = await run.context.starter_fault(run.run_id, run.token)
        starter = Process.of_key(run.starter)
        withdrawn = run.ended_waiting and (starter is None or not starter.alive)
        if (fault is None and not withdrawn) or run.state != state:
            return
        if run.state == "reserved":
            # there is a starter, so the startd had accepted it
            self._runs.taken(run)
        try:
            await self._end_without_report(run, fault)
        except FetchworkError as error:
            event(log, logging.ERROR, "starter_gone", run=run.run_id, problem=error)
            return
        event(
            log,
            logging.INFO,
            "run_withdrawn" if fault is None else "start_failed",
            run=run.run_id,
            job=run.job,
            slot=run.slot,
            reason=None if fault is None else fault.text,
        )
        self._runs.ended(run.context.session, run.run_id)

    async def _end_without_report(self, run: LiveRun, fault: Fault | None) -> None:
        """The starter of a run is gone without a report: what it wrote down says what becomes of the job."""
        if fault is not None and fault.code is not None:
            call = could_not_start(run.run_id, run.token, fault, run.slot)
        elif run.ended_waiting:
            # as somebody had asked: there is no more to say of a job that had not begun
            await run.context.session.reports.finish(
                run_id=run.run_id,
                token=run.token,
                hook_reason="evict",
                report={},
                verdict=None,
                timeout_s=CALL_S,
            )
            return
        else:
            problem = None if fault is None else fault.reason(run.slot)
            # it matters whether the startd had accepted it: only such a try is counted
            await run.context.session.reports.write_accepts()
            call = run_calls.starter_gone(run_id=run.run_id, token=run.token, problem=problem)
        await run.context.session.database.run(call, timeout_s=CALL_S)
