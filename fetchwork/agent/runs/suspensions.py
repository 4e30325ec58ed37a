"""Stops the jobs that people suspend, and lets them go on (condor_suspend, condor_continue).

The startd takes such a job for running, and knows nothing of the suspension. So a job is stopped again that
its startd lets go on after a suspension of its own (SUSPEND), and one goes on that its startd tells to end: a
stopped process does not receive the signal.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.log import event
from fetchwork.process import Process, family

log = logging.getLogger(__name__)

#: seconds in which a process stops, unless it waits for a device
STOP_S = 0.5
_LOOK_S = 0.01
#: signals that tell a job to end; others may wait for a stopped process, too (SIGCHLD, SIGALRM)
_ENDINGS = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM,
)  # fmt: skip


class Suspensions:
    """The suspended jobs of an agent's runs."""

    def __init__(self, runs: WatchedRuns) -> None:
        self._runs = runs
        #: the runs whose jobs were stopped here -> monotonic time until which their chains' ends are put off
        self._stopped: dict[LiveRun, float] = {}
        #: the signals that waited for a stopped job at first: a child that stopped later may have sent them
        self._waited: dict[LiveRun, int] = {}
        #: runs whose jobs were told to end while they were stopped
        self._ending: set[LiveRun] = set()

    async def round(self, running: Iterable[LiveRun]) -> set[LiveRun]:
        """Stop jobs and let jobs go on, as people wish; return the runs whose jobs changed.

        ``running``: all runs that have started and not ended.
        """
        here = set(running)
        self._stopped = {run: since for run, since in self._stopped.items() if run in here}
        self._waited = {run: signals for run, signals in self._waited.items() if run in here}
        self._ending &= here
        changed = set()
        for run in here:
            wish = self._runs.orders.suspension(run)
            if wish is None or run in self._ending:
                continue
            job = orphans.job_of(run)
            if job is not None and await self._follow(run, job, wish):
                changed.add(run)
        return changed

    async def _follow(self, run: LiveRun, job: Process, wish: str) -> bool:
        """Whether the job was stopped or went on."""
        if wish == "suspend" and not self._is_told_to_end(run, job):
            self._put_off_end_of_chain(run)
            # parents first: a process that goes on may start others
            busy = [process for process in family(job) if process.alive and not process.stopped]
            has_stopped = (
                bool(busy) and await self._send(run, signal.SIGSTOP, busy) and await _has_stopped(job)
            )
            if busy or run not in self._waited:
                self._waited[run] = _waiting(job)
            return has_stopped
        self._stopped.pop(run, None)
        self._waited.pop(run, None)
        if wish == "suspend":
            self._ending.add(run)
        sent = await self._send(run, signal.SIGCONT, [one for one in family(job) if one.stopped])
        if sent:
            self._runs.orders.continues(run)
        return sent

    def _is_told_to_end(self, run: LiveRun, job: Process) -> bool:
        """Whether a signal to end came for a stopped job."""
        came = _waiting(job) & ~self._waited.get(run, ~0)
        return job.stopped and any(came >> (number - 1) & 1 for number in _ENDINGS)

    def _put_off_end_of_chain(self, run: LiveRun) -> None:
        now = time.monotonic()
        if run.chain is not None and not run.chain.over:
            run.chain.end += now - self._stopped.get(run, now)
        self._stopped[run] = now

    async def _send(self, run: LiveRun, number: int, processes: list[Process]) -> bool:
        """Whether a signal reached these processes."""
        problem = None
        for process in processes:
            try:
                await self._runs.rights.signal(process, number)
            except OSError as error:
                problem = error.strerror
        name = "job_suspended" if number == signal.SIGSTOP else "job_continued"
        level = logging.INFO if problem is None else logging.WARNING
        event(log, level, name, run=run.run_id, job=run.job, processes=len(processes), problem=problem)
        return problem is None


async def _has_stopped(job: Process) -> bool:
    """Whether a process stops within STOP_S of its signal."""
    for _ in range(round(STOP_S / _LOOK_S)):
        if job.stopped:
            return True
        await asyncio.sleep(_LOOK_S)
    return False


def _waiting(job: Process) -> int:
    """The signals that wait for a process: bit N - 1 is signal N (proc(5), SigPnd and ShdPnd)."""
    try:
        lines = Path(f"/proc/{job.pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return 0
    waiting = 0
    for line in lines:
        if line.startswith(("SigPnd:", "ShdPnd:")):
            waiting |= int(line.split()[1], 16)
    return waiting
