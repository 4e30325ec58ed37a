"""The watch over running jobs' memory and disk: a job that uses too much is killed, and Held or retried.

Memory: if HTCondor gives jobs a cgroup with a limit, the kernel is faster and this watch never finds a job.
Otherwise nothing else limits memory: HTCondor itself does not check it. First the resident sizes of a job's
processes are added up, which any account may read; they count shared pages for each process. Only if the sum
is too large are the proportional sizes read, which the job's account may read (``signalrights``).

Disk: watched only if the host file asks for it (``slots.limit_disk``). HTCondor by itself limits no job's
disk: an administrator sets STARTD_ENFORCE_DISK_LIMITS, with a logical volume for each job, and of that a
fetched job gets the volume but no hold. A job's files are counted as the job's account (``signalrights``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import time
from collections import defaultdict
from pathlib import Path

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs.inspections import Inspections, Running, runs_on
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers import overuse, retrying
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.retrying import Settled
from fetchwork.log import event
from fetchwork.process import Process, family

log = logging.getLogger(__name__)

#: the same as HTCondor's CGROUP_POLLING_INTERVAL
MEMORY_S = 5.0
DISK_S = 5.0
#: a directory is counted again after DISK_S, and after this many times the duration of the last count
BACKOFF = 20.0
#: seconds for the database's answer
CALL_S = 5.0
#: the mount point of cgroups of version 2
CGROUPS = "/sys/fs/cgroup"
#: most processes whose proportional size is read; the rest of a larger family counts as nothing
MOST_PROCESSES = 500
#: seconds for one account's processes, which the account may have made slow to read
ACCOUNT_S = 3.0
_MOST_BYTES = 16384
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"(?m)^Pss:\s+(\d+) kB$")


class MemoryWatch:
    """The memory of an agent's runs."""

    def __init__(self, runs: WatchedRuns) -> None:
        self._runs = runs
        self._inspections = Inspections(runs, "memory_not_watched")

    async def round(self) -> None:
        """Inspect each run, and end the jobs that use too much memory."""
        self._inspections.begin(lambda run: run.memory_mib is not None, self._inspect)

    async def inspected(self) -> None:
        """Wait for the inspections in flight."""
        await self._inspections.over()

    async def _inspect(self, running: Running) -> None:
        run, job, limit_mib = running.run, running.job, running.run.memory_mib
        capped = _limit_and_peak(job)
        if capped is not None:
            run.memory_capped = True
            run.memory_mib = limit_mib = capped[0] // 2**20
            if run.chain is None:
                run.memory_used_mib = capped[1] // 2**20
                return
            # the cgroup's peak may be that of an earlier job of the chain
        if limit_mib is None:
            return
        processes = family(job)
        used_mib = sum(map(_resident, processes)) / 2**20
        if used_mib > limit_mib:
            used_mib = await proportional(processes[:MOST_PROCESSES], self._runs.rights) / 2**20
        run.memory_used_mib = max(run.memory_used_mib, used_mib)
        if used_mib <= limit_mib or run.memory_capped or not runs_on(run):
            return
        await _end(
            run,
            job,
            self._runs.rights,
            await retrying.settle_overuse(run, overuse.over_memory(limit_mib, used_mib), CALL_S),
            "over_memory",
            used_mib=int(used_mib),
            limit_mib=limit_mib,
        )


class DiskWatch:
    """The scratch directories of an agent's runs."""

    def __init__(self, runs: WatchedRuns) -> None:
        self._runs = runs
        self._inspections = Inspections(runs, "disk_not_watched")
        self._next: dict[LiveRun, float] = {}

    async def round(self) -> None:
        """Inspect the runs that are due, and end the jobs that use too much disk."""
        self._next = {run: when for run, when in self._next.items() if not run.ended}
        self._inspections.begin(self._is_due, self._inspect_and_back_off)

    async def inspected(self) -> None:
        """Wait for the inspections in flight."""
        await self._inspections.over()

    def _is_due(self, run: LiveRun) -> bool:
        return run.disk_kib is not None and self._next.get(run, 0.0) <= time.monotonic()

    async def _inspect_and_back_off(self, running: Running) -> None:
        began = time.monotonic()
        try:
            await self._inspect(running)
        finally:
            now = time.monotonic()
            self._next[running.run] = now + BACKOFF * (now - began)

    async def _inspect(self, running: Running) -> None:
        run, starter, job = running.run, running.starter, running.job
        try:
            used_kib = -(-await self._runs.rights.disk_used(starter, running.uid) // 1024)
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
        await _end(
            run,
            job,
            self._runs.rights,
            await retrying.settle_overuse(run, overuse.over_disk(run.disk_kib), CALL_S),
            "over_disk",
            used_kib=used_kib,
            limit_kib=run.disk_kib,
        )


async def _end(
    run: LiveRun, job: Process, rights: SignalRights, settled: Settled, name: str, **fields: object
) -> None:
    """Kill the job, unless its run ends otherwise already; ``name`` and ``fields`` are for the log."""
    problem = None
    if settled.ends:
        try:
            await rights.signal(job, signal.SIGKILL)
        except OSError as error:
            problem = error.strerror
    event(
        log,
        logging.WARNING,
        name,
        person=run.owner,
        run=run.run_id,
        job=run.job,
        **fields,
        held=settled.ends and settled.asks_for is None,
        asks_for=settled.asks_for if settled.ends else None,
        problem=problem,
    )


def cgroup_of(job: Process) -> Path | None:
    """Return the directory of a job's cgroup of version 2, None if it has none."""
    try:
        lines = Path(f"/proc/{job.pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    return next((Path(f"{CGROUPS}{line[3:]}") for line in lines if line.startswith("0::/")), None)


def _limit_and_peak(job: Process) -> tuple[int, int] | None:
    """Return the limit and the peak of the job's cgroup in bytes; None if the kernel sets no limit."""
    directory = cgroup_of(job)
    if directory is None:
        return None
    try:
        # "max" is no number
        return int((directory / "memory.max").read_text()), int((directory / "memory.peak").read_text())
    except (OSError, ValueError):
        return None


def _resident(process: Process) -> int:
    """Return a process's bytes in memory, including shared ones."""
    try:
        return int(Path(f"/proc/{process.pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


async def proportional(processes: list[Process], rights: SignalRights) -> int:
    """Return the bytes of these processes, with shared pages divided among their users.

    A process that may not be read counts as 0.
    """
    total = 0
    waited: defaultdict[int, float] = defaultdict(float)
    for process in processes:
        uid = process.owner
        if uid is None or waited[uid] > ACCOUNT_S:
            continue
        began = time.monotonic()
        try:
            fd = await rights.open(Path(f"/proc/{process.pid}/smaps_rollup"), uid)
        except OSError:
            waited[uid] += time.monotonic() - began
            continue
        try:
            # in a thread: the kernel goes through all pages of the process
            pss = _PSS.search(await asyncio.to_thread(os.read, fd, _MOST_BYTES))
        except OSError:
            continue
        finally:
            os.close(fd)
            waited[uid] += time.monotonic() - began
        total += int(pss[1]) * 1024 if pss is not None else 0
    return total
