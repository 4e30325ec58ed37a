"""Stops the jobs that people suspend, and lets them go on (condor_suspend, condor_continue).

The startd takes such a job for running, and knows nothing of the suspension. So a job is stopped again that
its startd lets go on after a suspension of its own (SUSPEND), and one goes on that its startd tells to end: a
stopped process does not receive the signal. A job that the startd itself has suspended goes on only when the
startd lets it: its policy may protect the machine's user.

Of a suspended job no time is charged. So a job counts as suspended while all of its processes stand still by
a person's or the startd's will, not because it has stopped its own first process.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.usage import cgroup_of
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.starterlog import Suspended
from fetchwork.log import event
from fetchwork.process import Process, family

log = logging.getLogger(__name__)

#: seconds in which a process stops, unless it waits for a device
STOP_S = 0.5
_LOOK_S = 0.01
#: most times in a round that processes are stopped which others started meanwhile
_MOST_PASSES = 4
#: seconds that a round waits for the processes of one job: a job may have very many
FOLLOW_S = 1.0
#: seconds that a job has to stand still after it went on by itself, until it counts as suspended again
STILL_S = 60.0
_UNKNOWN = Suspended(False, -1)
#: signals that tell a job to end; others may wait for a stopped process, too (SIGCHLD, SIGALRM)
_ENDINGS = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM,
)  # fmt: skip


@dataclass(slots=True)
class _Stop:
    """A job that a person has suspended."""

    #: the startd's suspension when the job last stood still
    by_startd: Suspended | None
    #: monotonic time until which its chain's end is put off
    put_off: float = field(default_factory=time.monotonic)
    #: the signals that waited for it at first: a child that stopped later may have sent them
    waited: int = ~0
    #: monotonic time at which it last went on without its startd
    went_on: float = float("-inf")

    @property
    def restless(self) -> bool:
        """Whether it goes on by itself, as when a process of another job sends it SIGCONT."""
        return time.monotonic() - self.went_on < STILL_S


class Suspensions:
    """The suspended jobs of an agent's runs."""

    def __init__(self, runs: WatchedRuns) -> None:
        self._runs = runs
        #: the jobs that people have suspended
        self._stops: dict[LiveRun, _Stop] = {}
        #: the startds' suspensions by the starters' logs; without the runs of chains
        self._by_startd: dict[LiveRun, Suspended] = {}
        #: the processes of jobs that people or startds have suspended, when they were last looked for
        self._families: dict[LiveRun, list[Process]] = {}
        #: runs whose jobs were told to end while they were stopped
        self._ending: set[LiveRun] = set()
        #: the runs of the last round, and those whose jobs stood still after it
        self._here: set[LiveRun] = set()
        self._still: set[LiveRun] = set()
        self._following: dict[LiveRun, asyncio.Task[bool]] = {}

    async def round(self, running: Iterable[LiveRun]) -> set[LiveRun]:
        """Stop jobs and let jobs go on, as people wish; return the runs whose jobs changed.

        ``running``: all runs that have started and not ended.
        """
        self._here = here = set(running)
        self._stops = {run: stop for run, stop in self._stops.items() if run in here}
        self._families = {run: found for run, found in self._families.items() if run in here}
        self._ending &= here
        await self._look_at_startds(here)
        jobs = {run: job for run in here if self._concerns(run) and (job := orphans.job_of(run)) is not None}
        for run in jobs.keys() - self._following.keys():
            self._following[run] = asyncio.ensure_future(self._follow(run, jobs[run]))
        if self._following:
            # a job may have very many processes, and no other job waits for them
            await asyncio.wait(self._following.values(), timeout=FOLLOW_S)
        over = [run for run, following in self._following.items() if following.done()]
        went_on = {run for run in over if self._following.pop(run).result()}
        still = {run for run, job in jobs.items() if self.is_suspended(run, job)}
        changed = went_on | (still ^ self._still)
        self._still = still
        return changed & here

    def is_suspended(self, run: LiveRun, job: Process) -> bool:
        """Whether a job stands still by a person's or its startd's will."""
        by_startd, stop = self._is_startds(run), self._stops.get(run)
        if not job.alive:
            return False
        if _busy(self.processes(run, job)):
            return by_startd and is_frozen(job)
        if stop is not None:
            return by_startd or not stop.restless
        # of a run of the agent before it, an agent knows no wishes at first: it tells of no change
        return by_startd or not (run in self._here and self._runs.orders.has_heard(run.context.session))

    def processes(self, run: LiveRun, job: Process) -> list[Process]:
        """The processes of a job, as far as they are known."""
        known = dict.fromkeys([*family(job), *self._families.get(run, [])])
        return [process for process in known if process.alive]

    def _concerns(self, run: LiveRun) -> bool:
        """Whether a job is suspended, was so, or a person wishes it."""
        return (
            self._runs.orders.suspension(run) is not None
            or run in self._still
            or self._by_startd.get(run, _UNKNOWN).is_suspended
        )

    def _is_startds(self, run: LiveRun) -> bool:
        """Whether its startd has suspended a job, as far as it is known."""
        if run.chain is None:
            return self._by_startd.get(run, _UNKNOWN).is_suspended
        # the starter writes nothing of a chain's later jobs, but stops the runner, too
        runner = orphans.child_of(run.starter) if run.starter is not None else None
        return runner is not None and runner.stopped

    async def _look_at_startds(self, runs: Iterable[LiveRun]) -> None:
        """Read what starters have written of their startds' suspensions."""
        alone = [run for run in runs if run.chain is None]
        told: dict[LiveRun, Suspended] = {}
        for logs in {run.context.starter_logs for run in alone}:
            own = [run for run in alone if run.context.starter_logs is logs]
            known = [(run.run_id, run.token, self._by_startd.get(run)) for run in own]
            told.update(zip(own, await logs.suspended(known), strict=True))
        self._by_startd = told

    async def _follow(self, run: LiveRun, job: Process) -> bool:
        """Whether the job went on by a person's wish, or to end."""
        wish = self._runs.orders.suspension(run)
        if run in self._ending:
            return False
        if wish == "suspend" and not self._is_told_to_end(run, job):
            await self._stop(run, job)
            return False
        if wish is None or (wish == "continue" and self._is_startds(run)):
            await self._note_startds(run, job)
            return False
        if wish == "suspend":
            self._ending.add(run)
        stopped = [one for one in await self._find_family(run, job) if one.stopped]
        if not await self._send(run, signal.SIGCONT, stopped):
            return False
        self._stops.pop(run, None)
        self._families.pop(run, None)
        self._runs.orders.continues(run)
        return True

    async def _stop(self, run: LiveRun, job: Process) -> None:
        """Stop a job's processes, and note whether it had gone on without its startd."""
        stop = self._stops.get(run)
        is_new = stop is None
        if stop is None:
            stop = self._stops[run] = _Stop(self._by_startd.get(run))
        self._put_off_end_of_chain(run, stop)
        if is_frozen(job):
            return
        if not is_new and not _busy(self.processes(run, job)):
            stop.by_startd = self._by_startd.get(run)
            return
        for _ in range(_MOST_PASSES):
            # parents first: a process that goes on may start others
            busy = _busy(await self._find_family(run, job))
            if not busy or not await self._send(run, signal.SIGSTOP, busy):
                break
            await _until_stopped(busy)
        stop.waited = _waiting(job)
        # its startd may have let it go on since the beginning of this round
        now = self._by_startd.get(run)
        if run.chain is None:
            (now,) = await run.context.starter_logs.suspended([(run.run_id, run.token, now)])
        if not is_new and stop.by_startd == now:
            stop.went_on = time.monotonic()
        stop.by_startd = now

    async def _note_startds(self, run: LiveRun, job: Process) -> None:
        """Find the processes of a job that its startd suspended; forget those of one that it let go on."""
        if not self._is_startds(run):
            self._families.pop(run, None)
        elif run not in self._families:
            await self._find_family(run, job)

    async def _find_family(self, run: LiveRun, job: Process) -> list[Process]:
        """Look for a job's processes, also those that are no longer below it."""
        found = family(job)
        if run.chain is None:
            try:
                found = await self._runs.rights.family(job)
            except OSError as error:
                event(log, logging.WARNING, "no_family", run=run.run_id, job=run.job, problem=error.strerror)
        elif (runner := job.parent) is not None:
            # the runner is the parent of what the job leaves behind
            found = family(runner)[1:]
        self._families[run] = found
        return found

    def _is_told_to_end(self, run: LiveRun, job: Process) -> bool:
        """Whether a signal to end came for a stopped job."""
        stop = self._stops.get(run)
        if stop is None or not job.stopped:
            return False
        came = _waiting(job) & ~stop.waited
        return any(came >> (number - 1) & 1 for number in _ENDINGS)

    @staticmethod
    def _put_off_end_of_chain(run: LiveRun, stop: _Stop) -> None:
        now = time.monotonic()
        if run.chain is not None and not run.chain.over:
            run.chain.end += now - stop.put_off
        stop.put_off = now

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


def is_frozen(job: Process) -> bool:
    """Whether a job's cgroup is frozen, as a starter suspends a job that has one."""
    directory = cgroup_of(job)
    try:
        return directory is not None and "frozen 1" in (directory / "cgroup.events").read_text().splitlines()
    except OSError:
        return False


def _busy(processes: list[Process]) -> list[Process]:
    """Those of a job's processes that go on."""
    return [process for process in processes if process.alive and not process.stopped]


async def _until_stopped(processes: list[Process]) -> None:
    """Wait for processes to stop after their signal, at most STOP_S."""
    for _ in range(round(STOP_S / _LOOK_S)):
        if not _busy(processes):
            return
        await asyncio.sleep(_LOOK_S)


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
