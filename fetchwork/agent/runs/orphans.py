"""Jobs that outlive their starter: which process is a job's, whether it is an orphan, how it is ended.

kill -9 of condor_master, alone or together with its daemons, leaves jobs running that no hook will ever
report. Such a job must not run again beside its orphan, and the orphan's exit status can't be learnt.

The job's process is known by its updates (JobPid), before the first of them by the children of its starter,
and after a restart of the agent by JobPid and JobStartDate in the database.
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

#: one that can't be ended is looked after again at this interval
ORPHAN_S = 60.0
#: an orphan gets SIGTERM, and SIGKILL after this
VACATE_S = 10.0
#: clocks of /proc and of the starter's JobStartDate differ by less
START_SLACK_S = 3.0
_HOOKS = frozenset({"prepare_job", "update_job_info", "job_exit"})


def is_orphan(job: Process | None, starter: Process | None) -> bool:
    """Tell whether a job's process lives though its starter does not."""
    return job is not None and job.alive and not (starter is not None and starter.alive)


def recorded_process(run: HostRun) -> Process | None:
    """The job's process of a run in the database, if it is still the same one."""
    pid, start = run.job_pid, run.job_start_date
    if not pid or start is None:
        return None
    process = Process.find(pid)
    started_at = process.started_at if process else None
    return process if started_at is not None and abs(started_at - start) <= START_SLACK_S else None


def child_of(starter: Process) -> Process | None:
    """The job's process among the children of a living starter; the others are hooks."""
    for child in starter.children():
        words = child.command
        # between fork and exec it looks like the starter itself
        if not words or words == starter.command:
            continue
        # a compiled hook may have become the one in Python, NAME.py
        if not _HOOKS & {word.rpartition("/")[2].removesuffix(".py") for word in words}:
            return child
    return None


async def end(job: Process, rights: SignalRights) -> str | None:
    """End an orphan and wait for its end a while; returns why it can't be ended, None otherwise."""
    for number, patience_s in ((signal.SIGTERM, VACATE_S), (signal.SIGKILL, 2.0)):
        try:
            # as HTCondor does: the job's own group with it in the end
            await rights.signal(job, number, group=number == signal.SIGKILL)
        except OSError as error:
            return error.strerror
        await until_ended(job, patience_s)
        if not job.alive:
            break
    return None


async def until_ended(process: Process, timeout_s: float) -> None:
    """Wait for the end of a process that is not our child."""
    for _ in range(int(timeout_s * 5)):
        if not process.alive:
            return
        await asyncio.sleep(0.2)


def of_run(run: LiveRun) -> Process | None:
    """The job's process, if it lives though its starter does not."""
    job = run.job_process
    if job is None or not is_orphan(job, Process.of_key(run.starter)):
        return None
    # the job's user says which process it is, and is believed for that user's processes only: else an
    # agent that is root would end any process that a job names
    uid = run.owner_uid if run.context.check_accounts else os.geteuid()
    return job if job.owner == uid else None


async def end_of_run(run: LiveRun, rights: SignalRights) -> None:
    """End a job that outlived its starter: its result can't be learnt, and it must not run twice."""
    job = run.job_process
    assert job is not None
    event(log, logging.WARNING, "orphan", run=run.run_id, job=run.job, slot=run.slot, pid=job.pid)
    logged = None
    while job.alive and run.state != "ended":
        problem = await end(job, rights)
        if problem is None:
            continue
        if problem != logged:
            logged = problem
            why = f"cannot be ended, its run waits for its end: {problem}"
            event(log, logging.WARNING, "orphan", run=run.run_id, job=run.job, problem=why)
        await until_ended(job, ORPHAN_S)
