"""Looks at running jobs: at one account's one behind the other, and none of another's waits for them."""

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
    """Whether what a run uses is reason to end its job: not once that has ended, and is being reported."""
    return run.state == "running" and not run.exiting


@dataclass(frozen=True, slots=True)
class Running:
    """A run whose job has a process, and the account of that."""

    run: LiveRun
    starter: Process
    job: Process
    uid: int


class Looks:
    """What looks at an agent's runs; ``name`` is for the log where one fails."""

    def __init__(self, runs: WatchedRuns, name: str) -> None:
        self._runs = runs
        self._name = name
        #: by account
        self._looking: dict[int, asyncio.Task[None]] = {}

    def begin(self, is_due: Callable[[LiveRun], bool], look: Callable[[Running], Awaitable[None]]) -> None:
        """Have each account's runs looked at that are due, where the last such look is over."""
        self._looking = {uid: task for uid, task in self._looking.items() if not task.done()}
        due: defaultdict[int, list[Running]] = defaultdict(list)
        for run in self._runs:
            starter = Process.of_key(run.starter)
            if not runs_on(run) or starter is None or not is_due(run):
                continue
            job = orphans.child_of(starter) if starter.alive else None
            uid = None if job is None else job.owner
            if job is not None and uid is not None:
                due[uid].append(Running(run, starter, job, uid))
        for uid, found in due.items():
            if uid not in self._looking:
                self._looking[uid] = asyncio.ensure_future(self._look_at(found, look))

    async def over(self) -> None:
        """Wait for the looks that are under way."""
        await asyncio.gather(*self._looking.values())

    async def _look_at(self, found: list[Running], look: Callable[[Running], Awaitable[None]]) -> None:
        for one in found:
            if not runs_on(one.run):
                # it has come to its end while others were looked at
                continue
            try:
                await look(one)
            except FetchworkError as error:
                run = one.run
                event(
                    log,
                    logging.WARNING,
                    self._name,
                    person=run.owner,
                    run=run.run_id,
                    job=run.job,
                    problem=error,
                )
