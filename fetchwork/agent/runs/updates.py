"""Updates of running jobs by the agent itself, in place of UPDATE_JOB_INFO.

An agent that runs as root, or has a privileged part, or has the same account as the jobs (``signalrights``),
can send jobs signals. Otherwise only a hook of the job's user can. With such an agent the generated
configuration has no UPDATE_JOB_INFO (``HostConfig.agent_updates``), of which HTCondor runs two for the
shortest job. The agent reads the data of that hook from /proc: usage of the job's family, and whether it is
stopped. It handles them as if a hook had brought them, and sends the job the signal of the answer. Without
such rights the hook stays.

Leases need no updates: the host's beat keeps those of all runs whose starter lives. But a run may be lost
while no agent lives, and its job run again elsewhere. No hook would end the old job, so the agent writes
down which starters run which runs before a job starts, and the next agent asks about each of them.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fetchwork import handlers
from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.suspensions import Suspensions
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers.context import Answer, Caller, Task
from fetchwork.handlers.host.chains import Chain
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.starterend import tells_enough
from fetchwork.hook.wire import Request
from fetchwork.log import event
from fetchwork.process import Process, family

log = logging.getLogger(__name__)

#: seconds between two rounds, which make the updates that are due
ROUND_S = 1.0
#: seconds until the next try to send a signal
AGAIN_S = 2.0
UPDATE_S = 10.0
#: seconds between two tries to report the ends of the previous agent's runs
ENDS_S = 1.0

_CLOCK_HZ = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
# fields of /proc/PID/stat after the command name: times in clock ticks, bytes, pages
_USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM, _SIZE, _RESIDENT = 11, 12, 13, 14, 20, 21


class Updates:
    """The updates of the runs: ``first_s`` after the start, then every ``interval_s`` seconds.

    ``contexts`` are the keywords by their lower-case names; ``file`` keeps the runs for the next agent.
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
        self._suspensions = Suspensions(runs)
        self._first_s = first_s
        self._interval_s = interval_s
        self._due: dict[LiveRun, float] = {}
        #: the signals sent to end jobs: each job gets a signal once, as from HTCondor
        self._sent: dict[LiveRun, int] = {}
        self._notes = _Notes(file)
        #: runs whose starters ended while no agent lived
        self._over: list[LiveRun] = []
        for run in _remembered(self._notes, contexts):
            (runs.left if _starter_lives(run) else self._over).append(run)
        #: None: not written, or in vain
        self._written: set[int] | None = None
        self._problem: str | None = None
        runs.on_start = self._remember

    def change_intervals(self, first_s: float, interval_s: float) -> None:
        """Change the intervals, from the next update of each run on."""
        self._first_s, self._interval_s = first_s, interval_s

    async def round(self) -> None:
        """Update the runs that are due, and those that the database wants to end, to stop or to go on."""
        now = time.monotonic()
        running = [run for run in self._running() if not run.exiting]
        # the queue may have given up a run during a silence while its job lives on
        self._runs.left += [run for run in self._due if run.ended]
        self._due = {run: self._due.get(run, now + self._first_s) for run in running}
        self._sent = {run: number for run, number in self._sent.items() if not run.ended}
        to_end = {run for run in running if self._runs.orders.is_to_end(run)}
        at_once = to_end | await self._suspensions.round(running)
        due = [run for run in running if run in at_once or self._due[run] <= now]
        for run in due:
            self._due[run] = now + self._interval_s
        # runs stay in ``left`` until the agent has taken them over, or their starters are gone
        known = {(run.run_id, run.token) for run in running}
        self._runs.left = [
            run for run in self._runs.left if (run.run_id, run.token) not in known and _starter_lives(run)
        ]
        await asyncio.gather(*(self._update(run, run in to_end) for run in [*due, *self._runs.left]))
        if self._written != self._to_write():
            self._remember()

    async def tell_ends(self) -> None:
        """Report the ends of the previous agent's runs, apart from ``round``: a database may be long away."""
        done = await asyncio.gather(*map(self._tell_end, self._over))
        self._over = [run for run, is_done in zip(self._over, done, strict=True) if not is_done]

    async def _tell_end(self, run: LiveRun) -> bool:
        """Report the end of a run without a JOB_EXIT that the database may have given up as lost.

        False if it must be tried again: the report could neither be delivered nor spooled, or no file tells
        the end and this agent has not read the runs that it takes over.
        """
        logs, session = run.context.starter_logs, run.context.session
        if run.starter is None or not await logs.tell_end(run.run_id, run.token):
            return True
        written = await logs.written(run.run_id, run.token, tells_end=True)
        # read here and again for the report; that happens once for a run that ended while no agent lived. The
        # runs file does not say that the job had begun: if the log does not (full disk), the database does
        if written is not None and tells_enough(written):
            answer = await self._runs.tell_end(run, run.starter)
            if answer is not None:
                return answer.reply.code != "unavailable"
        if session not in self._runs.taken_over:
            return False
        if not any(live.run_id == run.run_id and live.context.session is session for live in self._runs):
            logs.forget(run.run_id, run.token)
        return True

    def _running(self) -> list[LiveRun]:
        return [run for run in self._runs if run.is_running]

    def _to_write(self) -> set[int]:
        return {run.run_id for run in [*self._running(), *self._over]}

    def _remember(self) -> None:
        """Write down the runs; a failure is logged, and stops no job."""
        # the end of a run may not be spooled or reported yet, so the next agent has to know the run
        runs = {
            (run.context.session, run.run_id): run
            for run in [*self._over, *self._runs.left, *self._running()]
        }
        rows = []
        for run in runs.values():
            if run.starter is not None:
                known = [run.run_id, run.token, run.context.keyword, run.slot, run.job]
                first = run.chain.first if run.chain is not None else None
                rows.append([*known, str(run.starter), run.memory_mib, run.disk_kib, first])
        self._written, before, self._problem = self._to_write(), self._problem, None
        try:
            self._notes.write(rows)
        except OSError as error:
            # the next round tries again
            self._written, self._problem = None, error.strerror
        if self._problem is not None and self._problem != before:
            event(log, logging.ERROR, "runs_not_written", file=self._notes.file, problem=self._problem)

    async def _update(self, run: LiveRun, to_end: bool) -> None:
        starter = run.starter
        job = orphans.job_of(run) if starter is not None and starter.alive else None
        if job is None:
            if (
                to_end
                and run.chain is None
                and run.job_process is None
                and starter is not None
                and not starter.children()
            ):
                await self._end_waiting(run, starter)
            # the job has not begun, or is over: the starter's end will tell
            if run in self._due:
                self._due[run] = min(self._due[run], time.monotonic() + ROUND_S)
            return
        ad = {"FetchWorkRunId": str(run.run_id), "FetchWorkToken": f'"{run.token}"'}
        ad |= {"FetchWorkHasPolicy": "true" if run.has_policy else "false", **usage(job)}
        ad["JobState"] = '"Running"'
        if self._suspensions.is_suspended(run, job):
            # event 010 has the number of those that were stopped
            ad |= {"JobState": '"Suspended"', "NumPids": str(len(self._suspensions.processes(run, job)))}
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
        if self._sent.get(run) == answer.reply.signal or await self._signal(run, job, answer.reply.signal):
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
            run.become("recalled")
        level = logging.INFO if problem is None else logging.WARNING
        event(log, level, "starter_ended", run=run.run_id, job=run.job, problem=problem)

    async def _signal(self, run: LiveRun, job: Process, number: int) -> bool:
        """Send a job a signal to end it; return whether that worked."""
        problem = None
        stopped = [process for process in self._suspensions.processes(run, job) if process.stopped]
        try:
            await self._runs.rights.signal(job, number)
            # a stopped process would not receive the signal
            for process in stopped if number != signal.SIGKILL else ():
                await self._runs.rights.signal(process, signal.SIGCONT)
        except OSError as error:
            problem = error.strerror
        else:
            if number != signal.SIGKILL:
                self._sent[run] = number
        level = logging.INFO if problem is None else logging.ERROR
        event(log, level, "job_signalled", run=run.run_id, job=run.job, signal=number, problem=problem)
        return problem is None


class _Notes:
    """The runs in two files that take turns, so that a write that is cut spoils no newer notes.

    A full disk or a kill may cut it. A power cut ends the starters too, so nothing is synced.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._paths = (file, file.with_name(f"{file.name}2"))
        self._descriptors: dict[Path, int] = {}
        #: of the newest notes
        self._number = 0

    def read(self) -> list[list[Any]]:
        """The rows written last. Raises OSError or ValueError if neither file can be read."""
        found, problem = [], None
        for path in self._paths:
            try:
                text = path.read_bytes().rstrip()
                if int(text[:8], 16) != zlib.crc32(text[9:]):
                    raise ValueError("a write was cut")
                found.append(json.loads(text[9:]))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                problem = error
        if problem is not None and not found:
            raise problem
        self._number, rows = max(found, default=(0, []))
        return rows

    def write(self, rows: list[list[Any]]) -> None:
        """Replace the older notes; raises OSError."""
        path = self._paths[self._number % 2]
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            # it holds the runs' tokens
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = self._descriptors[path] = os.open(path, flags, 0o600)
        text = json.dumps([self._number + 1, rows]).encode()
        # a new file for each start would be a third of an agent's work for chains; blanks cover a longer text
        data = (b"%08x %s" % (zlib.crc32(text), text)).ljust(os.fstat(descriptor).st_size)
        if os.pwrite(descriptor, data, 0) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._number += 1


def _starter_lives(run: LiveRun) -> bool:
    return run.starter is not None and run.starter.alive


def _remembered(notes: _Notes, contexts: Mapping[str, KeywordContext]) -> Iterator[LiveRun]:
    """Yield the runs that the previous agent has written down, if any."""
    try:
        for run_id, token, keyword, slot, job, starter, memory_mib, disk_kib, first in notes.read():
            process = Process.parse(starter)
            context = contexts.get(keyword.lower())
            if context is not None and process is not None:
                run = LiveRun(run_id, token, context, slot, job, owner="", state="running")
                run.starter = process
                # unknown here: the database is asked whether the job has a policy
                run.has_policy = True
                run.memory_mib = None if memory_mib is None else int(memory_mib)
                run.disk_kib = None if disk_kib is None else int(disk_kib)
                run.chain = None if first is None else Chain.begun_before(int(first), slot)
                yield run
    except (OSError, ValueError, TypeError, AttributeError) as error:
        event(log, logging.ERROR, "runs_not_read", file=notes.file, problem=str(error))


async def _no_fetch(task: Task) -> Answer:
    raise AssertionError(f"an update of {task.request.slot} is no fetch")


def usage(job: Process) -> dict[str, str]:
    """Return the usage of a job's process and its family as UPDATE_JOB_INFO reports it, sizes in KiB."""
    stats = [fields for process in family(job) if (fields := _stat(process.pid))]
    user = sum(int(fields[_USER]) + int(fields[_ENDED_USER]) for fields in stats)
    system = sum(int(fields[_SYSTEM]) + int(fields[_ENDED_SYSTEM]) for fields in stats)
    resident = sum(int(fields[_RESIDENT]) for fields in stats) * _PAGE_KIB
    attributes = {
        "JobPid": str(job.pid),
        "NumPids": str(len(stats)),
        "ImageSize": str(sum(int(fields[_SIZE]) for fields in stats) // 1024),
        "ResidentSetSize": str(resident),
        "MemoryUsage": str((resident + 1023) // 1024),
        "RemoteUserCpu": f"{user / _CLOCK_HZ:.2f}",
        "RemoteSysCpu": f"{system / _CLOCK_HZ:.2f}",
    }
    started_at = job.started_at
    return attributes if started_at is None else {**attributes, "JobStartDate": str(int(started_at))}


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
