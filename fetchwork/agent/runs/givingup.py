"""Gives up runs whose report will not come, with the reason that their starters wrote down, if any.

A run without its JOB_EXIT gets a second of grace, for a report that is still on its way or lies in the spool.
It is not given up while its job lives on as an orphan, nor before its outputs are delivered.
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

log = logging.getLogger(__name__)

#: seconds after a starter's end in which its JOB_EXIT may still be on its way
GRACE_S = 1.0
CALL_S = 5.0
#: seconds between two checks whether a run's outputs are delivered
DELIVERING_S = 0.5


class GivingUp:
    """Ends live ``runs`` without a report; ``replay`` delivers the spool, ``rights`` serve to end orphans."""

    def __init__(self, runs: Runs, replay: Callable[[], Awaitable[None]], rights: SignalRights) -> None:
        self._runs = runs
        self._replay = replay
        self._rights = rights

    async def after_grace(self, run: LiveRun, grace_s: float = GRACE_S) -> None:
        """Give up a run whose starter is gone, once no report or output of it can come any more."""
        await asyncio.sleep(grace_s)
        while not run.ended:
            try:
                if run.exiting:
                    await asyncio.sleep(0.05)
                    continue
                await self._replay()
                if run.ended:
                    return
                if run.uploading:
                    # its end is known and follows its files, or its next run needs its checkpoint
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
                logging.INFO if run.state == "recalled" else logging.WARNING,
                "run_withdrawn" if run.state == "recalled" else "run_given_up",
                run=run.run_id,
                job=run.job,
                slot=run.slot,
                by="starter_gone",
            )
            self._runs.ended(run.context.session, run.run_id)

    async def look_into_start(self, run: LiveRun) -> None:
        """End a run if its starter's log says that it failed without a further hook."""
        state = run.state
        fault = await run.context.starter_fault(run.run_id, run.token)
        withdrawn = state == "recalled" and (run.starter is None or not run.starter.alive)
        if (fault is None and not withdrawn) or run.state != state:
            return
        if state in ("reserved", "unconfirmed"):
            # a starter exists, so the startd had accepted the run
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
        """End a run whose starter is gone without a report; the starter's ``fault`` decides about the job."""
        if fault is not None and fault.code is not None:
            call = could_not_start(run.run_id, run.token, fault, run.slot)
        elif run.state == "recalled":
            # a user or the database asked for this end, and a job that had not begun has nothing to report
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
            # the database must know whether the startd had accepted it: only accepted tries are counted
            await run.context.session.reports.write_accepts()
            call = run_calls.starter_gone(run_id=run.run_id, token=run.token, problem=problem)
        await run.context.session.database.run(call, timeout_s=CALL_S)
