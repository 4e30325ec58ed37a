"""The watch of running jobs' scratch directories: one that takes more than its run may is killed, and Held.

Only where the host file asks for it (``slots.limit_disk``). HTCondor by itself does this for nobody: a host's
administrator sets STARTD_ENFORCE_DISK_LIMITS, with a logical volume for each job, and of that a fetched job
gets the volume but no hold. What a job's files take is counted as the job's account (``rights``).
"""

from __future__ import annotations

import logging
import time

from fetchwork.agent import overuse
from fetchwork.agent.looks import Looks, Running, runs_on
from fetchwork.agent.watch import WatchedRuns
from fetchwork.handlers import disk, retrying
from fetchwork.handlers.runs import LiveRun
from fetchwork.log import event

log = logging.getLogger(__name__)

ROUND_S = 5.0
#: a directory is looked at again after so many times what the look took, and ROUND_S
REST = 20.0


class DiskWatch:
    """The scratch directories of an agent's runs."""

    def __init__(self, runs: WatchedRuns) -> None:
        self._runs = runs
        self._looks = Looks(runs, "disk_not_watched")
        self._next: dict[LiveRun, float] = {}

    async def round(self) -> None:
        """Have the runs looked at that are due."""
        self._next = {run: when for run, when in self._next.items() if not run.ended}
        self._looks.begin(self._is_due, self._look_and_rest)

    async def looked(self) -> None:
        """Wait for the looks that are under way."""
        await self._looks.over()

    def _is_due(self, run: LiveRun) -> bool:
        return run.disk_kib is not None and self._next.get(run, 0.0) <= time.monotonic()

    async def _look_and_rest(self, one: Running) -> None:
        began = time.monotonic()
        try:
            await self._look(one)
        finally:
            now = time.monotonic()
            self._next[one.run] = now + REST * (now - began)

    async def _look(self, one: Running) -> None:
        run, starter, job = one.run, one.starter, one.job
        try:
            used_kib = -(-await self._runs.rights.disk_used(starter, one.uid) // 1024)
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
        if run.disk_kib is None or used_kib <= run.disk_kib or not runs_on(run):
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
