"""Orphans, jobs that outlive their starter: finding a job's process, recognizing an orphan, ending it.

kill -9 of condor_master, alone or together with its daemons, leaves jobs running that no hook will ever
report. Such a job must not run a second time beside its orphan, and the orphan's exit status can't be learnt.

A job's process is known by its updates (JobPid), before the first update by the children of its starter, and
after a restart of the agent by JobPid and JobStartDate in the database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.db.calls.hosts import HostRun
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: seconds until the next try to end an orphan that could not be ended
ORPHAN_S = 60.0
#: seconds from an orphan's SIGTERM to its SIGKILL
VACATE_S = 10.0
#: most seconds between the start time in /proc and the starter's JobStartDate
START_SLACK_S = 3.0
_HOOKS = frozenset({"prepare_job", "update_job_info", "job_exit"})


def is_orphan(job: Process | None, starter: Process | None) -> bool:
    """Whether a job's process lives and its starter does not."""
    return job is not None and job.alive and not (starter is not None and starter.alive)


def recorded_process(run: HostRun) -> Process | None:
    """Return the job's process of a run in the database, if its pid still belongs to that process."""
    pid, start = run.job_pid, run.job_start_date
    if not pid or start is None:
        return None
    process = Process.find(pid)
    started_at = process.started_at if process else None
    return process if started_at is not None and abs(started_at - start) <= START_SLACK_S else None


def child_of(starter: Process) -> Process | None:
    """Return the job's process among the children of a living starter; the other children are hooks."""
    for child in starter.children():
        words = child.command
        # between fork and exec it looks like the starter itself
        if not words or words == starter.command:
            continue
        # a compiled hook may have become the hook in Python, NAME.py
        if not _HOOKS & {word.rpartition("/")[2].removesuffix(".py") for word in words}:
            return child
    return None


def job_of(run: LiveRun) -> Process | None:
    """Return the process of a run's job below its living starter; None between two jobs.

    The starter's child is the runner if the run is one of a chain. The runner's first child is the job; it
    becomes the parent of further processes only when the job leaves them.
    """
    job = child_of(run.starter) if run.starter is not None else None
    if run.chain is None or job is None:
        return job
    return next((child for child in job.children() if child.command != job.command), None)


async def end(job: Process, rights: SignalRights) -> str | None:
    """End an orphan and wait a while for its end; return the reason if it can't be ended, None otherwise."""
    for number, patience_s in ((signal.SIGTERM, VACATE_S), (signal.SIGKILL, 2.0)):
        try:
            # like HTCondor, include the job's own process group in the SIGKILL
            await rights.signal(job, number, group=number == signal.SIGKILL)
        except OSError as error:
            return error.strerror
        await until_ended(job, patience_s)
        if not job.alive:
            break
    return None


async def until_ended(process: Process, timeout_s: float) -> None:
    """Wait for the end of a process that is no child of the agent."""
    for _ in range(int(timeout_s * 5)):
        if not process.alive:
            return
        await asyncio.sleep(0.2)


def of_run(run: LiveRun) -> Process | None:
    """Return the job's process if it is an orphan of its own account."""
    job = run.job_process
    if job is None or not is_orphan(job, run.starter):
        return None
    # the job's user names the process, and is believed only for processes of that user: otherwise an agent
    # that is root would end any process that a job names
    uid = run.owner_uid if run.context.check_accounts else os.geteuid()
    return job if job.owner == uid else None


async def end_of_run(run: LiveRun, rights: SignalRights) -> None:
    """End a run's orphan: its result can't be learnt, and its job must not run twice."""
    job = run.job_process
    assert job is not None
    event(log, logging.WARNING, "orphan", run=run.run_id, job=run.job, slot=run.slot, pid=job.pid)
    logged = None
    while job.alive and not run.ended:
        problem = await end(job, rights)
        if problem is None:
            continue
        if problem != logged:
            logged = problem
            why = f"cannot be ended, its run waits for its end: {problem}"
            event(log, logging.WARNING, "orphan", run=run.run_id, job=run.job, problem=why)
        await until_ended(job, ORPHAN_S)
