"""Inspects running jobs: one account's in turn, different accounts in parallel."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.errors import FetchworkError
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)


def runs_on(run: LiveRun) -> bool:
    """Whether a run's job may still be ended for its usage: not once its end is being reported."""
    return run.is_running and not run.exiting


@dataclass(frozen=True, slots=True)
class Running:
    """A run whose job has a process, with that process and its account."""

    run: LiveRun
    starter: Process
    job: Process
    uid: int


class Inspections:
    """The inspections of an agent's runs; ``name`` is the log event of a failed one."""

    def __init__(self, runs: WatchedRuns, name: str) -> None:
        self._runs = runs
        self._name = name
        #: uid -> inspection in flight
        self._looking: dict[int, asyncio.Task[None]] = {}

    def begin(self, is_due: Callable[[LiveRun], bool], look: Callable[[Running], Awaitable[None]]) -> None:
        """Begin to inspect each account's due runs, unless its last inspection is still in flight."""
        self._looking = {uid: task for uid, task in self._looking.items() if not task.done()}
        due: defaultdict[int, list[Running]] = defaultdict(list)
        for run in self._runs:
            starter = run.starter
            if not runs_on(run) or starter is None or not is_due(run):
                continue
            job = orphans.job_of(run) if starter.alive else None
            uid = None if job is None else job.owner
            if job is not None and uid is not None:
                due[uid].append(Running(run, starter, job, uid))
        for uid, running in due.items():
            if uid not in self._looking:
                self._looking[uid] = asyncio.ensure_future(self._look_at(running, look))

    async def over(self) -> None:
        """Wait for the inspections in flight."""
        await asyncio.gather(*self._looking.values())

    async def _look_at(self, due: list[Running], look: Callable[[Running], Awaitable[None]]) -> None:
        for running in due:
            run = running.run
            if not runs_on(run):
                # it has ended while others were inspected
                continue
            try:
                await look(running)
            except FetchworkError as error:
                event(
                    log,
                    logging.WARNING,
                    self._name,
                    person=run.owner,
                    run=run.run_id,
                    job=run.job,
                    problem=error,
                )
