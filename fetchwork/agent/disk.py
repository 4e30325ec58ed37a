"""The watch of running jobs' scratch directories: one that takes more than its run may is killed, and Held.

Only where the host file asks for it (``slots.limit_disk``). HTCondor by itself does this for nobody: a host's
administrator sets STARTD_ENFORCE_DISK_LIMITS, with a logical volume for each job, and of that a fetched job
gets the volume but no hold. What a job's files take is counted as the job's account (``rights``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict

from fetchwork.agent import orphans, overuse
from fetchwork.agent.watch import WatchedRuns
from fetchwork.errors import FetchworkError
from fetchwork.handlers import disk, retrying
from fetchwork.handlers.runs import LiveRun
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

ROUND_S = 5.0
#: a directory is looked at again after so many times what the look took, and ROUND_S
REST = 20.0


class DiskWatch:
    """The scratch directories of an agent's runs."""

    def __init__(self, runs: WatchedRuns) -> None:
        self._runs = runs
        #: by account: the look at its runs, which none of another's waits for
        self._looking: dict[int, asyncio.Task[None]] = {}
        self._next: dict[LiveRun, float] = {}

    async def round(self) -> None:
        """Have each account's runs looked at that are due, where the last such look is over."""
        self._next = {run: when for run, when in self._next.items() if not run.ended}
        self._looking = {uid: task for uid, task in self._looking.items() if not task.done()}
        due: defaultdict[int, list[tuple[LiveRun, Process, Process]]] = defaultdict(list)
        for run in self._runs:
            starter = Process.of_key(run.starter)
            if run.state != "running" or run.exiting or run.disk_kib is None or starter is None:
                continue
            job = orphans.child_of(starter) if starter.alive else None
            uid = None if job is None else job.owner
            if job is not None and uid is not None and self._next.get(run, 0.0) <= time.monotonic():
                due[uid].append((run, starter, job))
        for uid, found in due.items():
            if uid not in self._looking:
                self._looking[uid] = asyncio.ensure_future(self._look_at(uid, found))

    async def looked(self) -> None:
        """Wait for the looks that are under way."""
        await asyncio.gather(*self._looking.values())

    async def _look_at(self, uid: int, runs: list[tuple[LiveRun, Process, Process]]) -> None:
        for run, starter, job in runs:
            began = time.monotonic()
            try:
                await self._look(run, starter, job, uid)
            except FetchworkError as error:
                event(log, logging.WARNING, "disk_not_watched", run=run.run_id, job=run.job, problem=error)
            now = time.monotonic()
            self._next[run] = now + REST * (now - began)

    async def _look(self, run: LiveRun, starter: Process, job: Process, uid: int) -> None:
        try:
            used_kib = -(-await self._runs.rights.disk_used(starter, uid) // 1024)
        except OSError as error:
            if starter.alive:
                event(
                    log,
                    logging.DEBUG,
                    "disk_not_watched",
                    run=run.run_id,
                    job=run.job,
                    problem=error.strerror,
                )
            return
        run.disk_used_kib = max(run.disk_used_kib, used_kib)
        if run.disk_kib is None or used_kib <= run.disk_kib or run.ended:
            return
        await overuse.end(
            run,
            job,
            self._runs.rights,
            await retrying.settle_overuse(run, disk.over(run.disk_kib), overuse.CALL_S),
            "over_disk",
            used_kib=used_kib,
            limit_kib=run.disk_kib,
        )
