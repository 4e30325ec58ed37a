"""A host without an agent ("direct mode"): one fetch, and the host's runs as it finds them in the database.

Only the fetches deliver what lies in the spool there and look after jobs, each before it claims.
"""

from __future__ import annotations

import dataclasses
import logging

from fetchwork.agent import orphans
from fetchwork.agent.ends import Ends
from fetchwork.agent.fetches import frees_slot
from fetchwork.agent.replay import Replay
from fetchwork.db.calls import hosts
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.handlers import matchround
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.fetch import FetchAttempt
from fetchwork.handlers.keywords import KeywordContext
from fetchwork.handlers.matchround import Seeker
from fetchwork.handlers.runs import LiveRun, Runs
from fetchwork.handlers.starterlog import StarterLogs
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)


class UnwatchedRuns(Runs):
    """What a fetch has to know of its host's runs."""

    def __init__(self, replay: Replay, starter_logs: StarterLogs) -> None:
        super().__init__()
        self._replay = replay
        self._starter_logs = starter_logs
        self._orphans: list[hosts.HostRun] | None = None
        #: those whose starters and jobs are gone
        self._gone: list[hosts.HostRun] = []

    async def look(self, context: KeywordContext, timeout_s: float) -> None:
        """Deliver what lies in the spool, and report which runs are alive, orphans among them."""
        try:
            await self._replay.deliver(self)
        except DatabaseUnavailable:
            raise
        except FetchworkError as error:
            event(log, logging.ERROR, "spool", problem=error)
        session = context.session
        greeting = await session.hello(timeout_s)
        runs = await session.host_runs(timeout_s)
        starters = {run.run_id: Process.of_key(run.starter) for run in runs}
        self._orphans = [
            run for run in runs if orphans.is_orphan(orphans.recorded_process(run), starters[run.run_id])
        ]
        # updates may not come: a job's account can't reach the database by itself
        alive = [run for run in runs if (starter := starters[run.run_id]) and starter.alive]
        alive += self._orphans
        if alive:
            ids = [run.run_id for run in alive]
            await session.database.run(hosts.beat(host_id=greeting.host_id, alive=ids), timeout_s=timeout_s)
        told = dataclasses.replace(context, starter_logs=self._starter_logs)
        self._gone = [run for run in runs if run.starter is not None and run not in alive]
        for run in self._gone:
            if run.starter is not None:
                await self._tell_end(told, run, run.starter)

    async def _tell_end(self, context: KeywordContext, row: hosts.HostRun, starter: str) -> None:
        """Report the end of a job without a JOB_EXIT, as an agent would; raises DatabaseUnavailable."""
        run = LiveRun.of_row(row, context)
        if run.state != "running" or not await self._starter_logs.tell_end(run.run_id, run.token):
            return
        answer = await Ends(self, None).tell(run, starter)
        if answer is not None and answer.reply.code == "unavailable":
            # nothing on its slot is over before that is delivered
            raise DatabaseUnavailable(answer.reply.message)

    async def free_slot(self, context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        """A free, undivided slot asks for work: what it ran is over, unless it lives on as an orphan."""
        if self._orphans is None:
            await self.look(context, timeout_s)
        assert self._orphans is not None
        if any(run.slot == slot for run in self._orphans):
            return False
        await context.session.slot_is_free(slot, timeout_s)
        for run in self._gone:
            if run.slot == slot:
                # no agent may ever come to do so
                self._starter_logs.forget(run.run_id, str(run.token))
        return True


async def fetch(task: Task, runs: UnwatchedRuns) -> Answer:
    """Answer a fetch after one look: without an agent none waits."""
    attempt = FetchAttempt(task)
    if attempt.not_now is not None:
        return attempt.answer(attempt.not_now)
    seeker = Seeker(attempt, await frees_slot(attempt, runs))
    await matchround.look([seeker])
    if isinstance(seeker.result, FetchworkError):
        raise seeker.result
    offer = seeker.result.offer if seeker.result else None
    return offer or attempt.answer("nothing")
