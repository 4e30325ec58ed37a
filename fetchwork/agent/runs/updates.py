"""Updates of running jobs by the agent itself, which then need no UPDATE_JOB_INFO.

An agent that runs as root or has left a part behind that does, or that is the account of HTCondor and so of
the jobs (``rights``), may do what else needs a hook of the job's user: send the job a signal. The generated
configuration has no UPDATE_JOB_INFO then (``HostConfig.agent_updates``), of which HTCondor runs two for the
shortest job. What the hook would bring, the agent reads from /proc: usage of the job's family, and whether it
is stopped. It is handled as if a hook had brought it, and a signal that is the answer goes to the job.
Elsewhere the hook stays.

Leases need no updates: the host's beat keeps those of all runs whose starter lives. But a run may be lost
while no agent lives, and be run again elsewhere. Its job has no hook that would hear of it, so the agent
writes down which starters run what, before the job starts, and the next agent asks about each of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fetchwork import handlers
from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers.context import Answer, Caller, Task
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.starterend import tells_enough
from fetchwork.hook.wire import Request
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: what is due is looked for at this interval
ROUND_S = 1.0
#: a signal that could not be sent is sent again after this
AGAIN_S = 2.0
UPDATE_S = 10.0
#: the ends of runs of the agent before are told at this interval
ENDS_S = 1.0

_CLOCK_HZ = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
# fields of /proc/PID/stat after the command name: times in clock ticks, bytes, pages
_USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM, _SIZE, _RESIDENT = 11, 12, 13, 14, 20, 21


class Updates:
    """The updates of the runs: the first ``first_s`` after the start, then every ``interval_s`` seconds.

    ``contexts`` are the keywords by their names in lower case; ``file`` keeps the runs for the next agent.
    """

    def __init__(
        self,
        runs: WatchedRuns,
        contexts: Mapping[str, KeywordContext],
        file: Path,
        *,
        first_s: float,
        interval_s: float,
    ) -> None:
        self._runs = runs
        self._first_s = first_s
        self._interval_s = interval_s
        self._due: dict[LiveRun, float] = {}
        #: the signals that jobs were told to end with: each gets one once, as from HTCondor
        self._told: dict[LiveRun, int] = {}
        self._file = file
        #: those whose starters ended while no agent lived
        self._over: list[LiveRun] = []
        for run in _remembered(file, contexts):
            (runs.left if _starter_lives(run) else self._over).append(run)
        self._written: set[int] | None = None
        runs.on_start = self._remember

    def change_intervals(self, first_s: float, interval_s: float) -> None:
        """From the next update of each run on."""
        self._first_s, self._interval_s = first_s, interval_s

    async def round(self) -> None:
        """Update what is due, and what the database wants to end."""
        now = time.monotonic()
        running = [run for run in self._running() if not run.exiting]
        # a run may be over for the queue, lost in a silence, and its job live on
        self._runs.left += [run for run in self._due if run.ended]
        self._due = {run: self._due.get(run, now + self._first_s) for run in running}
        self._told = {run: number for run, number in self._told.items() if not run.ended}
        to_end = {run for run in running if self._runs.is_to_end(run)}
        due = [run for run in running if run in to_end or self._due[run] <= now]
        for run in due:
            self._due[run] = now + self._interval_s
        # until the agent has taken them over, or their starters are gone
        known = {(run.run_id, run.token): run for run in running}
        for run in self._runs.left:
            taken_over = known.get((run.run_id, run.token))
            if taken_over is not None and taken_over.memory_mib is None:
                taken_over.memory_mib = run.memory_mib
                taken_over.disk_kib = run.disk_kib
        self._runs.left = [
            run for run in self._runs.left if (run.run_id, run.token) not in known and _starter_lives(run)
        ]
        await asyncio.gather(*(self._update(run, run in to_end) for run in [*due, *self._runs.left]))
        if self._written != self._to_write():
            self._remember()

    async def tell_ends(self) -> None:
        """Report the ends of runs of the agent before, apart from ``round``: a database may be long away."""
        told = await asyncio.gather(*map(self._tell_end, self._over))
        self._over = [run for run, is_told in zip(self._over, told, strict=True) if not is_told]

    async def _tell_end(self, run: LiveRun) -> bool:
        """Report the end of a run without a JOB_EXIT, which the database may have given up as lost.

        False where there is more to do: it could neither be delivered nor spooled, or nothing tells it, and
        what this agent takes over has not been read.
        """
        logs, session = run.context.starter_logs, run.context.session
        if run.starter is None or not await logs.tell_end(run.run_id, run.token):
            return True
        written = await logs.written(run.run_id, run.token, tells_end=True)
        # read here and again to report it, which happens once for a run that ended while no agent lived;
        # that its job had begun was not written down here: where the disk was full, the database knows it
        if written is not None and tells_enough(written):
            answer = await self._runs.tell_end(run, run.starter)
            if answer is not None:
                return answer.reply.code != "unavailable"
        if session not in self._runs.taken_over:
            return False
        if not any(one.run_id == run.run_id and one.context.session is session for one in self._runs):
            logs.forget(run.run_id, run.token)
        return True

    def _running(self) -> list[LiveRun]:
        return [run for run in self._runs if run.state == "running"]

    def _to_write(self) -> set[int]:
        return {run.run_id for run in [*self._running(), *self._over]}

    def _remember(self) -> None:
        """Write down the runs; a disk that refuses is told, and stops no job."""
        # the end of one that is over may be kept nowhere yet: the next agent has to know of it
        runs = {
            (run.context.session, run.run_id): run
            for run in [*self._over, *self._runs.left, *self._running()]
        }
        rows = []
        for run in runs.values():
            starter = Process.of_key(run.starter)
            if starter is not None:
                known = [run.run_id, run.token, run.context.keyword, run.slot, run.job]
                rows.append([*known, str(starter), run.memory_mib, run.disk_kib])
        new = self._file.with_name(f".{self._file.name}-{os.getpid()}")
        try:
            # it holds the runs' tokens
            with open(new, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
                json.dump(rows, stream)
            new.replace(self._file)
        except OSError as error:
            event(log, logging.ERROR, "runs_not_written", file=self._file, problem=error.strerror)
        self._written = self._to_write()

    async def _update(self, run: LiveRun, to_end: bool) -> None:
        starter = Process.of_key(run.starter)
        job = orphans.child_of(starter) if starter is not None and starter.alive else None
        if job is None:
            if to_end and run.job_process is None and starter is not None and not starter.children():
                await self._end_waiting(run, starter)
            # it has not begun, or is over: the starter's end tells
            if run in self._due:
                self._due[run] = min(self._due[run], time.monotonic() + ROUND_S)
            return
        ad = {"FetchWorkRunId": str(run.run_id), "FetchWorkToken": f'"{run.token}"'}
        ad |= {"FetchWorkHasPolicy": "true" if run.has_policy else "false", **usage(job)}
        if run.disk_used_kib:
            ad["DiskUsage"] = str(run.disk_used_kib)
        body = "".join(f"{name} = {value}\n" for name, value in ad.items())
        task = Task(
            Request("update_job_info", body.encode(), keyword=run.context.keyword, slot=run.slot),
            Caller(os.geteuid(), trusted=True, starter=run.starter),
            run.context,
            self._runs,
            time.monotonic() + UPDATE_S,
        )
        answer = await handlers.handle(task, fetch_work=_no_fetch)
        if not answer.reply.signal or answer.reply.pid != job.pid:
            return
        again_s = AGAIN_S
        if self._told.get(run) == answer.reply.signal or await self._signal(run, job, answer.reply.signal):
            again_s = answer.kill_in_s or AGAIN_S
        if run in self._due:
            self._due[run] = min(self._due[run], time.monotonic() + again_s)

    async def _end_waiting(self, run: LiveRun, starter: Process) -> None:
        """End a starter that waits for the time of its job: no signal would reach the job before that."""
        problem = None
        try:
            await self._runs.rights.end_starter(starter)
        except OSError as error:
            problem = error.strerror
        else:
            run.ended_waiting = True
        level = logging.INFO if problem is None else logging.WARNING
        event(log, level, "starter_ended", run=run.run_id, job=run.job, problem=problem)

    async def _signal(self, run: LiveRun, job: Process, number: int) -> bool:
        """Send a job the signal that it ends with; whether it could be."""
        problem = None
        stopped = [process for process in family(job) if process.stopped]
        try:
            await self._runs.rights.signal(job, number)
            # who is stopped would not hear of it
            for process in stopped if number != signal.SIGKILL else ():
                await self._runs.rights.signal(process, signal.SIGCONT)
        except OSError as error:
            problem = error.strerror
        else:
            if number != signal.SIGKILL:
                self._told[run] = number
        level = logging.INFO if problem is None else logging.ERROR
        event(log, level, "job_signalled", run=run.run_id, job=run.job, signal=number, problem=problem)
        return problem is None


def _starter_lives(run: LiveRun) -> bool:
    starter = Process.of_key(run.starter)
    return starter is not None and starter.alive


def _remembered(file: Path, contexts: Mapping[str, KeywordContext]) -> Iterator[LiveRun]:
    """The runs that the agent before has written down; none where it left nothing."""
    try:
        rows = json.loads(file.read_text())
        for run_id, token, keyword, slot, job, starter, memory_mib, disk_kib in rows:
            process = Process.parse(starter)
            context = contexts.get(keyword.lower())
            if context is not None and process is not None:
                run = LiveRun(run_id, token, context, slot, job, owner="", state="running")
                run.starter = process.key
                # whether it has one the database knows, which is asked
                run.has_policy = True
                run.memory_mib = None if memory_mib is None else int(memory_mib)
                run.disk_kib = None if disk_kib is None else int(disk_kib)
                yield run
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, AttributeError) as error:
        event(log, logging.ERROR, "runs_not_read", file=file, problem=str(error))


async def _no_fetch(task: Task) -> Answer:
    raise AssertionError(f"an update of {task.request.slot} is no fetch")


def family(job: Process) -> list[Process]:
    """A job's process, and all that come from it now."""
    found = [job]
    for process in found:
        found += process.children()
    return found


def usage(job: Process) -> dict[str, str]:
    """What an update says of a job's process and its family, as UPDATE_JOB_INFO has it: sizes in KiB."""
    stats = [fields for process in family(job) if (fields := _stat(process.pid))]
    user = sum(int(fields[_USER]) + int(fields[_ENDED_USER]) for fields in stats)
    system = sum(int(fields[_SYSTEM]) + int(fields[_ENDED_SYSTEM]) for fields in stats)
    resident = sum(int(fields[_RESIDENT]) for fields in stats) * _PAGE_KIB
    told = {
        "JobState": '"Suspended"' if job.stopped else '"Running"',
        "JobPid": str(job.pid),
        "NumPids": str(len(stats)),
        "ImageSize": str(sum(int(fields[_SIZE]) for fields in stats) // 1024),
        "ResidentSetSize": str(resident),
        "MemoryUsage": str((resident + 1023) // 1024),
        "RemoteUserCpu": f"{user / _CLOCK_HZ:.2f}",
        "RemoteSysCpu": f"{system / _CLOCK_HZ:.2f}",
    }
    started_at = job.started_at
    return told if started_at is None else {**told, "JobStartDate": str(int(started_at))}


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
