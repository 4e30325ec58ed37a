"""Runs the jobs of the scheduler universe that were submitted here, condor_dagman above all.

Theory of operation
-------------------
Such a job waits in the queue like any other, in an autocluster that is offered to no slot. This access point
claims it, which makes a run. A supervisor, a process of the job's owner, passes the fence (``start``) in its
own name and starts the program. The run's lease is renewed for as long as the supervisor lives; ``finish``
reports its end, with the verdict of the job's policy. A job that is held, removed or vacated meanwhile gets
the signal for that.

The access point may end at any point. Its supervisors then end their jobs and leave the results behind. Its
successor finds the runs that are still live in the database. It finishes a run whose supervisor has gone with
the result left behind, or without a result as evicted, so that the job runs again. If the database is away
for so long that leases may expire, the jobs are ended here, because another access point may then run them.

A DAG's job reads the event log of its nodes. Before it starts, its predecessor's submissions have ended and
every event is in the log, so it finds each submitted node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fetchwork.accesspoint.backoff import Restarts
from fetchwork.accesspoint.children import Account, ChildEnded, Children
from fetchwork.accesspoint.logs import LogKeeper
from fetchwork.accesspoint.scheduler import jobargs
from fetchwork.accesspoint.scheduler.supervisor import request_for
from fetchwork.codes import HoldCode
from fetchwork.condor import directory
from fetchwork.dag import environment, programs
from fetchwork.db.calls import runs, scheduler
from fetchwork.db.calls.call import Call
from fetchwork.db.calls.scheduler import SchedulerClaim, SchedulerRun
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, FetchworkError, NotFound
from fetchwork.ipc.frames import Json, encode
from fetchwork.ipc.link import Link
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

T = TypeVar("T")

#: jobs of one owner that run at a time, apart from nodes of DAGs
MAX_EACH = 200
LEASE_S = 600.0
#: seconds without the database after which jobs are ended, as their leases may expire soon
FENCE_S = 450.0
#: seconds between two polls of the queue, while a job runs here and while no job does
BUSY_S = 1.0
IDLE_S = 5.0
#: seconds that jobs have after their signals at the end of the access point
PATIENCE_S = 15.0
#: seconds for the evaluation of a job's policy at its end
JUDGE_S = 30.0
#: seconds to find out whether a program is there
LOOK_S = 30.0


class _Refused(FetchworkError):
    """The job can't be started here, now or ever."""


@dataclass(slots=True)
class _Run:
    """A run whose supervisor this process started."""

    claim: SchedulerClaim
    link: Link | None = None
    #: the job's pid, once it runs
    pid: int | None = None
    kill_signal: int = signal.SIGTERM
    #: the end that was requested and signalled last
    asked: str | None = None
    #: whether the access point itself ends it
    evicting: bool = False
    #: whether the database does not know the run: its job may wait there, and starts after this run's end
    lost: bool = False
    changed: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tell(self, number: int) -> None:
        """Have the supervisor send the job a signal."""
        if self.link is not None and self.pid is not None:
            with contextlib.suppress(OSError):
                self.link.socket.send(encode({"signal": number}))


class SchedulerJobs:
    """The scheduler-universe jobs of one access point."""

    def __init__(
        self,
        database: AsyncDatabase,
        children: Children,
        logs: LogKeeper,
        *,
        name: str,
        state: Path,
        access_point: Path,
        quiet: Callable[[str], Awaitable[None]],
    ) -> None:
        self._database = database
        self._children = children
        self._logs = logs
        self._name = name
        #: directory of the jobs' results, by run
        self._results = state / "results"
        self._socket = access_point
        self._quiet = quiet
        self._runs: dict[int, _Run] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._restarts = Restarts()
        self._making = asyncio.Lock()
        self._work = asyncio.Event()
        self._reached_at = time.monotonic()
        self._stopping = False

    @property
    def running(self) -> int:
        """The number of jobs that run here."""
        return len(self._runs)

    def look(self) -> None:
        """Poll the queue now, because it has changed."""
        self._work.set()

    async def keep(self) -> None:
        """Run jobs for as long as the access point lives."""
        self._results.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            try:
                await self._tend()
                self._reached_at = time.monotonic()
                if not any(run.lost for run in self._runs.values()):
                    await self._claim()
            except NOT_NOW as error:
                event(log, logging.WARNING, "scheduler_waits", problem=error)
                self._fence()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BUSY_S if self._tasks else IDLE_S):
                    await self._work.wait()
            self._work.clear()

    async def stop(self) -> None:
        """End the jobs, which go back to the queue; called when ``keep`` has ended."""
        self._stopping = True
        for run in self._runs.values():
            self._evict(run)
        for run_id, task in self._tasks.items():
            if run_id not in self._runs:
                # it waits for its restart, and will do so at the next access point
                task.cancel()
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the queue

    async def _tend(self) -> None:
        live = await self._database.run(
            scheduler.tend_scheduler_runs(access_point=self._name, alive=list(self._runs))
        )
        for row in live:
            if row.run_id in self._tasks:
                run = self._runs.get(row.run_id)
                if run is not None and row.end_requested not in (None, run.asked):
                    await self._end(run, row.end_requested)
            else:
                await self._left_behind(row)
        known = {row.run_id for row in live}
        for run_id, run in self._runs.items():
            if run_id not in known and run.pid is not None and not run.evicting:
                event(log, logging.WARNING, "run_lost", run=run_id)
                run.evicting = run.lost = True
                run.tell(signal.SIGKILL)

    async def _claim(self) -> None:
        while not self._stopping:
            claim = await self._database.run(
                scheduler.claim_scheduler_job(access_point=self._name, max_each=MAX_EACH, lease_s=LEASE_S),
                again=False,
            )
            if claim is None:
                return
            self._begin(claim)

    def _begin(self, claim: SchedulerClaim) -> None:
        task = asyncio.ensure_future(self._run(claim))
        self._tasks[claim.run_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(claim.run_id, None))

    async def _left_behind(self, row: SchedulerRun) -> None:
        """Take over a live run of a former process of this access point."""
        if row.state != "running":
            # it was claimed but not started
            ad = await self._database.run(runs.run_policy(run_id=row.run_id, token=row.token))
            if ad is not None:
                self._begin(SchedulerClaim(row.run_id, row.token, row.cluster_id, row.proc_id, row.owner, ad))
            return
        host, _, text = (row.starter or "").partition(" ")
        if host != socket.gethostname():
            # an access point of this name on another host has the run until its lease expires
            return
        process = Process.parse(text)
        if process is not None and process.alive:
            return
        self._tasks[row.run_id] = task = asyncio.ensure_future(self._report_left_behind(row))
        task.add_done_callback(lambda _: self._tasks.pop(row.run_id, None))

    async def _report_left_behind(self, row: SchedulerRun) -> None:
        try:
            result = json.loads((self._results / str(row.run_id)).read_text())
        except (OSError, ValueError):
            result = None
        if result is None:
            report, reason = {"JobPid": 0, "VacateReason": "its access point ended"}, "evict"
        else:
            report, reason = result, "exit" if "ExitBySignal" in result else "evict"
        account = await self._logs.account(row.owner)
        await self._finish(row, account, reason, report)
        event(log, logging.INFO, "run_left_behind", job=f"{row.cluster_id}.{row.proc_id}", reported=reason)

    # -- one job

    async def _run(self, claim: SchedulerClaim) -> None:
        job = f"{claim.cluster_id}.{claim.proc_id}"
        try:
            await asyncio.sleep(self._restarts.delay_s(job))
            await self._started(claim)
        except _Refused as problem:
            event(log, logging.WARNING, "job_not_started", person=claim.owner, job=job, problem=problem)
            await self._settled(
                runs.refuse_start(
                    run_id=claim.run_id,
                    token=claim.token,
                    reason=str(problem),
                    code=HoldCode.FAILED_TO_CREATE_PROCESS,
                )
            )
        except (FetchworkError, OSError) as problem:
            # the claim ends by its own deadline
            event(log, logging.WARNING, "job_waits", person=claim.owner, job=job, problem=problem)
        finally:
            self._restarts.ended(job)
            run = self._runs.pop(claim.run_id, None)
            if run is not None and run.link is not None:
                run.link.close()
            self._work.set()

    async def _started(self, claim: SchedulerClaim) -> None:
        try:
            account = await self._logs.account(claim.owner)
            request = request_for(claim, self._socket)
        except FetchworkError as problem:
            if isinstance(problem, NOT_NOW):
                raise
            raise _Refused(str(problem)) from None
        if request["dagman"]:
            await self._for_dagman(account, request)
        run = self._runs[claim.run_id] = _Run(claim)
        if request["dagman"]:
            await self._quiet(claim.owner)
            await self._logs.drained()
        run.kill_signal = request["kill_signal"]
        run.link = self._children.supervisor(account)
        hello = await run.link.receive()
        supervisor = Process.find(int(hello["pid"]))
        refusal = await self._database.run(
            runs.start(run_id=claim.run_id, token=claim.token, starter=f"{socket.gethostname()} {supervisor}")
        )
        if refusal is not None or self._stopping:
            event(log, logging.INFO, "job_not_started", run=claim.run_id, problem=refusal or "stopping")
            if refusal is None:
                await self._finish(claim, account, "evict", {"JobPid": 0})
            return
        path = self._results / str(claim.run_id)
        with path.open("wb") as result:
            socket.send_fds(run.link.socket, [b"r"], [result.fileno()])
            await run.link.send(request)
        answer = await run.link.receive()
        if "problem" in answer:
            # the failure counts as a try: the run ends without having started
            await self._finish(claim, account, "exit", {"FetchWorkProblem": str(answer["problem"])})
            return
        run.pid = int(answer["started"])
        self._restarts.began(f"{claim.cluster_id}.{claim.proc_id}")
        event(log, logging.INFO, "job_started", job=f"{claim.cluster_id}.{claim.proc_id}", pid=run.pid)
        if self._stopping:
            self._evict(run)
        report = await self._ended(run)
        evicted = run.evicting or "ExitBySignal" not in report
        if evicted:
            report = {name: report[name] for name in report if not name.startswith("Exit")}
        await self._finish(claim, account, "evict" if evicted else "exit", report)
        event(log, logging.INFO, "job_ended", job=f"{claim.cluster_id}.{claim.proc_id}", evicted=evicted)

    async def _ended(self, run: _Run) -> Json:
        """Pass on the progress of a DAG until the job has ended; return the job's report."""
        assert run.link is not None
        while True:
            try:
                answer = await run.link.receive()
            except (EOFError, ConnectionError):
                return {"JobPid": run.pid, "VacateReason": "its supervisor was killed"}
            if "ended" in answer:
                report: Json = answer["ended"]
                return report
            # leave out JobPid, which would acknowledge a requested end
            beat = {"JobState": "Running", **answer["status"]}
            with contextlib.suppress(*NOT_NOW):
                await self._database.run(
                    runs.heartbeat(run_id=run.claim.run_id, token=run.claim.token, report=beat)
                )

    async def _for_dagman(self, account: Account, request: Json) -> None:
        """Add the environment of a condor_dagman to a request; raises _Refused without such a program.

        The owner chose the program's path, which may be on a file system that does not answer.
        """
        found = await self._children.ask(account, {"do": "look", "path": request["executable"]}, LOOK_S)
        if found["missing"]:
            raise _Refused(programs.missing(request["executable"]))
        try:
            async with self._making:
                # this may run the compiler
                commands = await asyncio.to_thread(directory.made, for_all=os.geteuid() == 0)
        except FetchworkError as problem:
            raise _Refused(str(problem)) from None
        request["env"] = environment.of_dagman(request["env"], commands, request["cwd"])

    async def _end(self, run: _Run, requested: str) -> None:
        """Send a job the signal for a requested end."""
        async with run.changed:
            if run.pid is None or run.asked == requested:
                return
            beat = await self._database.run(
                runs.heartbeat(run_id=run.claim.run_id, token=run.claim.token, report={"JobPid": run.pid})
            )
            if beat.action == "end":
                run.asked = requested
                run.tell(jobargs.signal_number(beat.kill_sig, signal.SIGTERM))

    def _evict(self, run: _Run) -> None:
        run.evicting = True
        run.tell(run.kill_signal)

    def _fence(self) -> None:
        """End jobs that another access point may soon run."""
        if time.monotonic() - self._reached_at > FENCE_S:
            for run in self._runs.values():
                if not run.evicting:
                    event(log, logging.WARNING, "job_fenced", run=run.claim.run_id)
                    self._evict(run)

    async def _finish(
        self, run: SchedulerClaim | SchedulerRun, account: Account, reason: str, report: Json
    ) -> None:
        verdict = None
        if reason == "exit" and "ExitBySignal" in report:
            verdict = await self._verdict(run, account, report)
        await self._settled(
            runs.finish(
                run_id=run.run_id, token=run.token, hook_reason=reason, report=report, verdict=verdict
            )
        )
        (self._results / str(run.run_id)).unlink(missing_ok=True)
        self._work.set()

    async def _verdict(
        self, run: SchedulerClaim | SchedulerRun, account: Account, report: Json
    ) -> Json | None:
        ad = await self._settled(runs.run_policy(run_id=run.run_id, token=run.token))
        if ad is None or not any(name.lower() in ("onexithold", "onexitremove") for name in ad):
            return None
        request = {"do": "judge", "ad": ad, "report": report}
        try:
            answer = await self._children.ask(account, request, JUDGE_S)
        except (TimeoutError, ChildEnded, FetchworkError) as problem:
            return {
                "action": "hold",
                "reason": f"its policy can't be evaluated: {problem}",
                "code": HoldCode.JOB_POLICY,
            }
        verdict: Json | None = answer["verdict"]
        return verdict

    async def _settled(self, call: Call[T]) -> T | None:
        """Return the result of a call; repeat it for as long as the database is away."""
        while True:
            try:
                return await self._database.run(call)
            except NOT_NOW as error:
                event(log, logging.WARNING, "scheduler_waits", problem=error)
                await asyncio.sleep(BUSY_S)
            except NotFound:
                # PostgreSQL lost the run in a crash
                return None
