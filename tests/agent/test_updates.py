"""The agent's own updates of running jobs: usage from /proc, and the end of jobs that must end."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.fetching.longpoll import WaitingFetches
from fetchwork.agent.fetching.notifications import WorkNotifications
from fetchwork.agent.lease import Lease
from fetchwork.agent.periodic import every
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import suspensions
from fetchwork.agent.runs.liveoutput import LiveOutputs, open_as_user
from fetchwork.agent.runs.suspensions import is_frozen
from fetchwork.agent.runs.updates import Updates, usage
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers.host.chains import Chain
from fetchwork.handlers.host.starterlog import StarterLogs
from fetchwork.process import Process, family
from tests.support.waiting import PATIENCE_S, until

from .conftest import Jobs, WatchingHooks, nothing, when_ready

#: as a starter with its job; the job reports its start
STARTER = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
SLEEPER = ["sh", "-c", "sleep 1000 & echo ready; wait"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]

StartJob = Callable[..., Process]


@pytest.fixture
def starter_of() -> Iterator[StartJob]:
    """Starts a job whose starter works in a scratch directory, and returns the starter."""
    started = []

    def start(job: list[str], scratch: Path | None = None) -> Process:
        command = [sys.executable, "-c", STARTER, *job]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, cwd=scratch)
        started.append(process)
        return when_ready(process)

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def updates_of(hooks: WatchingHooks, directory: Path, seconds: float) -> Updates:
    assert isinstance(hooks.runs, WatchedRuns)
    contexts = {"fw": hooks.context}
    return Updates(hooks.runs, contexts, directory / "spool.runs", first_s=seconds, interval_s=seconds)


StartRun = Callable[..., Awaitable[tuple[Updates, Process]]]
#: any role may send these notifications
FORGED = ['["!"', '["!"]', '["!", 99]', '["!", "1"]', '["!", 1, 2]', '["!", {}]', "["]


@pytest.fixture
def running(agent: WatchingHooks, starter_of: StartJob, tmp_path: Path) -> StartRun:
    """A job that runs with the given process and attributes, its updater, and its starter."""

    async def start(command: list[str], **attributes: object) -> tuple[Updates, Process]:
        updates = updates_of(agent, tmp_path, 0.0)
        agent.submit(ad=attributes)
        starter = starter_of(command)
        await agent.begin(starter)
        return updates, starter

    return start


def job_process(starter: Process) -> Process:
    (job,) = starter.children()
    return job


def stop_all(job: Process, number: int = signal.SIGSTOP) -> None:
    """Stop a job's processes, or let them go on, as a startd does."""
    for one in family(job):
        one.signal(number)
    until(lambda: {one.stopped for one in family(job)} == {number == signal.SIGSTOP})


async def test_usage_is_that_of_the_whole_family(starter_of: StartJob) -> None:
    job = job_process(
        starter_of(["sh", "-c", "head -c 80000000 /dev/zero | tail -c 1 >&2; echo ready; sleep 1000 & wait"])
    )
    until(lambda: usage(job)["NumPids"] == "2")
    told = usage(job)
    assert told["JobPid"] == str(job.pid)
    assert int(told["ResidentSetSize"]) > 500
    assert int(told["ImageSize"]) > int(told["ResidentSetSize"])
    # the pipe's processes have ended, and their CPU time counts
    assert float(told["RemoteUserCpu"]) + float(told["RemoteSysCpu"]) > 0


async def test_update_is_written_as_if_a_hook_had_brought_it(running: StartRun, jobs: Jobs) -> None:
    updates, starter = await running(SLEEPER)
    await updates.round()
    job = job_process(starter)
    (run,) = jobs.database.query("SELECT job_pid, usage FROM fetchwork.run")
    assert run["job_pid"] == job.pid
    assert run["usage"]["NumPids"] == 2
    stop_all(job)
    await updates.round()
    assert jobs.job_of("1.0")["jobstatus"] == 7


async def test_removed_job_gets_its_signal_and_is_killed_when_its_time_is_over(
    running: StartRun, jobs: Jobs
) -> None:
    updates, starter = await running(STUBBORN)
    job = job_process(starter)
    jobs.call("remove", jobs=["1.0"])
    await updates.round()
    assert job.alive
    jobs.database.query("UPDATE fetchwork.run SET signalled_at = now() - interval '1 day'")
    async with asyncio.timeout(PATIENCE_S):
        while job.alive:
            await updates.round()
            await asyncio.sleep(0.05)


async def test_job_that_heeds_its_signal_ends_at_the_next_round_after_a_beat(
    agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    _, starter = await running(SLEEPER)
    job = job_process(starter)
    runs = agent.runs
    # its next update is due only in an hour
    updates = updates_of(agent, tmp_path, 3600.0)
    agent.call("remove", jobs=["1.0"])
    await updates.round()
    assert job.alive
    session = agent.context.session
    told = await session.beat(runs.alive(session), PATIENCE_S)
    runs.orders.take(session, told)
    await updates.round()
    assert job.wait(PATIENCE_S)


@pytest.mark.parametrize("hook", [False, True])
async def test_starter_that_waits_for_the_time_of_its_job_is_ended_and_one_with_a_hook_is_not(
    agent: WatchingHooks, tmp_path: Path, hook: bool
) -> None:
    script = tmp_path / "prepare_job"
    script.write_text("#!/bin/sh\necho ready\nsleep 600\n")
    script.chmod(0o755)
    waits = f"{script} & wait; read x" if hook else "echo ready; read x"
    process = subprocess.Popen(
        ["sh", "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        starter = when_ready(process)
        agent.submit(ad={"DeferralTime": 1})
        await agent.begin(starter)
        updates, runs = updates_of(agent, tmp_path, 3600.0), agent.runs
        await updates.round()
        assert starter.alive
        agent.call("remove", jobs=["1.0"])
        session = agent.context.session
        runs.orders.take(session, await session.beat(runs.alive(session), PATIENCE_S))
        await updates.round()
        assert starter.wait(PATIENCE_S) if not hook else starter.alive
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


TELLING = [
    "sh", "-c",
    "trap 'echo asked >>$0' TERM; trap 'echo usr1 >>$0' USR1; echo ready; while :; do sleep 0.05; done",
]  # fmt: skip


async def test_job_is_told_to_end_once_and_again_only_for_another_reason(
    running: StartRun, jobs: Jobs, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    updates, _ = await running([*TELLING, str(heard)], HoldKillSig="SIGUSR1")
    jobs.call("vacate", jobs=["1.0"])
    for _ in range(3):
        await updates.round()
    until(lambda: heard.exists() and heard.read_text() == "asked\n")
    jobs.call("hold", jobs=["1.0"])
    await updates.round()
    until(lambda: heard.read_text() == "asked\nusr1\n")


async def test_job_that_is_stopped_hears_its_signal(running: StartRun, jobs: Jobs) -> None:
    updates, starter = await running(SLEEPER)
    job = job_process(starter)
    job.signal(signal.SIGSTOP)
    until(lambda: job.stopped)
    jobs.call("remove", jobs=["1.0"])
    await updates.round()
    assert job.wait(PATIENCE_S)


@pytest.fixture(autouse=True)
def patient_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds wait for the processes of jobs, however slow the machine is."""
    for name in ("STOP_S", "FOLLOW_S"):
        monkeypatch.setattr(suspensions, name, PATIENCE_S)


class Suspended:
    """A job of which a person's wishes are followed; no update of it is due within the test."""

    def __init__(self, hooks: WatchingHooks, job: Process, directory: Path) -> None:
        self.hooks = hooks
        self.job = job
        self.updates = updates_of(hooks, directory, 3600.0)

    async def wish(self, action: str) -> None:
        """Suspend or continue it, and let a round follow."""
        assert self.hooks.call(action, jobs=["1.0"])
        await self.round()

    async def round(self) -> None:
        """The beat and the round after it."""
        session, runs = self.hooks.context.session, self.hooks.runs
        assert isinstance(runs, WatchedRuns)
        runs.orders.take(session, await session.beat(runs.alive(session), PATIENCE_S))
        await self.updates.round()

    @property
    def status(self) -> Any:
        """Its JobStatus."""
        return self.hooks.job_of("1.0")["jobstatus"]


@pytest.fixture
async def suspended(agent: WatchingHooks, running: StartRun, tmp_path: Path) -> Suspended:
    _, starter = await running(SLEEPER)
    made = Suspended(agent, job_process(starter), tmp_path)
    await made.wish("suspend")
    assert [one.stopped for one in family(made.job)] == [True, True]
    assert made.status == 7
    return made


async def test_suspended_job_stays_stopped_until_it_may_go_on(suspended: Suspended) -> None:
    for one in family(suspended.job):
        one.signal(signal.SIGCONT)
    until(lambda: not suspended.job.stopped)
    await suspended.updates.round()
    assert [one.stopped for one in family(suspended.job)] == [True, True]
    await suspended.wish("continue")
    until(lambda: not any(one.stopped for one in family(suspended.job)))
    assert suspended.status == 2
    # no person asked for this one, so it stays
    stop_all(suspended.job)
    await suspended.round()
    assert suspended.job.stopped


async def test_job_that_goes_on_by_itself_counts_as_running_until_it_stands_still(
    suspended: Suspended, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_all(suspended.job, signal.SIGCONT)
    await suspended.round()
    assert suspended.status == 2
    assert [one.stopped for one in family(suspended.job)] == [True, True]
    await suspended.round()
    assert suspended.status == 2
    monkeypatch.setattr(suspensions, "STILL_S", 0.0)
    await suspended.round()
    assert suspended.status == 7


class OfStartd(Suspended):
    """A job whose startd may suspend it, by its starter's word."""

    @property
    def _log(self) -> Path:
        (log,) = self.logs.iterdir()
        return log

    def __init__(self, hooks: WatchingHooks, job: Process, directory: Path) -> None:
        super().__init__(hooks, job, directory)
        self.logs = directory / "logs"
        self.says("001")

    def says(self, number: str) -> None:
        """Let the starter write an event."""
        with self._log.open("a") as log:
            log.write(f"{number} (001.000.000) 2026-11-28 05:35:13 Job.\n...\n")

    def suspends(self) -> None:
        """The startd suspends the job."""
        stop_all(self.job)
        self.says("010")

    def continues(self) -> None:
        """The startd lets it go on."""
        stop_all(self.job, signal.SIGCONT)
        self.says("011")


@pytest.fixture
async def of_startd(conninfo: str, starter_of: StartJob, tmp_path: Path) -> AsyncIterator[OfStartd]:
    hooks = WatchingHooks(conninfo, starter_logs=StarterLogs(tmp_path / "logs", of_users=False))
    hooks.submit()
    starter = starter_of(SLEEPER)
    await hooks.begin(starter)
    yield OfStartd(hooks, job_process(starter), tmp_path)
    await hooks.close()


async def test_startd_s_suspension_is_told_at_once_and_its_end(of_startd: OfStartd) -> None:
    of_startd.suspends()
    await of_startd.round()
    assert of_startd.status == 7
    of_startd.continues()
    await of_startd.round()
    assert of_startd.status == 2


async def test_a_person_does_not_end_a_suspension_by_the_startd(of_startd: OfStartd) -> None:
    of_startd.suspends()
    await of_startd.round()
    await of_startd.wish("continue")
    assert (of_startd.status, of_startd.job.stopped) == (7, True)
    of_startd.continues()
    await of_startd.round()
    assert of_startd.status == 2
    # the wish is over
    of_startd.suspends()
    await of_startd.round()
    assert of_startd.status == 7


async def test_a_startd_does_not_end_a_suspension_by_a_person(of_startd: OfStartd) -> None:
    await of_startd.wish("suspend")
    of_startd.suspends()
    await of_startd.round()
    of_startd.continues()
    await of_startd.round()
    assert [one.stopped for one in family(of_startd.job)] == [True, True]
    assert of_startd.status == 7
    # the person's suspension ends before the startd's
    of_startd.suspends()
    await of_startd.wish("continue")
    assert (of_startd.status, of_startd.job.stopped) == (7, True)
    of_startd.continues()
    await of_startd.round()
    assert of_startd.status == 2
    assert not any(one.stopped for one in family(of_startd.job))


async def test_job_that_stops_itself_is_not_suspended(of_startd: OfStartd) -> None:
    stop_all(of_startd.job)
    of_startd.updates = updates_of(of_startd.hooks, of_startd.logs, 0.0)
    await of_startd.round()
    assert of_startd.status == 2
    assert of_startd.hooks.database.query("SELECT usage ->> 'JobState' AS said FROM fetchwork.run") == [
        {"said": "Running"}
    ]


async def test_job_of_a_frozen_cgroup_is_suspended_only_if_its_starter_says_so(
    of_startd: OfStartd, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = False
    monkeypatch.setattr(suspensions, "is_frozen", lambda job: frozen)
    # a forged entry
    of_startd.says("010")
    await of_startd.round()
    assert of_startd.status == 2
    frozen = True
    await of_startd.round()
    assert of_startd.status == 7


def test_state_of_a_cgroup_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(suspensions, "cgroup_of", lambda job: tmp_path)
    job = Process(1, 1)
    assert not is_frozen(job)
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert not is_frozen(job)
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert is_frozen(job)


#: starts its job as HTCondor's does, with the variable by which the job's processes are found
MARKING_STARTER = """
import os, subprocess, sys
mark = 'export _CONDOR_ANCESTOR_%d=$$:1:1; exec "$@"' % os.getpid()
subprocess.Popen(["sh", "-c", mark, "sh", *sys.argv[1:]]).wait()
"""
#: leaves a process that is no longer below it, and lets the job go on
DAEMON = "while sleep 0.05; do kill -CONT $1 || exit; done"


async def test_processes_that_left_the_job_are_stopped_too(
    agent: WatchingHooks, running: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "STARTER", MARKING_STARTER)
    file = tmp_path / "pid"
    leave = f"(setsid sh -c '{DAEMON}' daemon $$ & echo $! >{file}); echo ready; sleep 1000"
    _, starter = await running(["sh", "-c", leave])
    job = job_process(starter)
    daemon = Process.find(int(file.read_text()))
    assert daemon is not None
    assert daemon not in family(job)
    try:
        made = Suspended(agent, job, tmp_path)
        await made.wish("suspend")
        assert (made.status, daemon.stopped, job.stopped) == (7, True, True)
        await made.round()
        assert made.status == 7
        await made.wish("continue")
        assert made.status == 2
        until(lambda: not daemon.stopped)
    finally:
        daemon.signal(signal.SIGKILL)


async def test_processes_started_while_the_job_is_stopped_are_stopped(
    agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    # each child starts the next one, and ends
    fork = "echo ready; f() { sleep 0.005; f & }; f; while :; do sleep 0.01 & wait $!; done"
    _, starter = await running(["sh", "-c", fork])
    made = Suspended(agent, job_process(starter), tmp_path)
    await made.wish("suspend")
    for _ in range(200):
        if made.status == 7:
            break
        await made.round()
    assert {one.stopped for one in family(made.job) if one.alive} == {True}
    assert made.status == 7


async def test_another_agent_follows_the_wish(suspended: Suspended, tmp_path: Path) -> None:
    after = Suspended(suspended.hooks, suspended.job, tmp_path)
    for one in family(suspended.job):
        one.signal(signal.SIGCONT)
    await after.round()
    until(lambda: all(one.stopped for one in family(suspended.job)))
    await after.wish("continue")
    assert after.status == 2


@pytest.mark.parametrize("act", ["remove", "hold", "vacate"])
async def test_suspended_job_ends_when_it_is_told_to(suspended: Suspended, act: str) -> None:
    suspended.hooks.call(act, jobs=["1.0"])
    await suspended.round()
    assert suspended.job.wait(PATIENCE_S)


async def test_suspended_job_ends_when_its_startd_tells_it_to(suspended: Suspended) -> None:
    suspended.job.signal(signal.SIGTERM)
    await suspended.updates.round()
    assert suspended.job.wait(PATIENCE_S)


async def test_signal_that_waited_before_the_suspension_ends_nothing(
    agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    _, starter = await running(SLEEPER)
    made = Suspended(agent, job_process(starter), tmp_path)
    # as if its parent had stopped before the child that sends it
    made.job.signal(signal.SIGSTOP)
    until(lambda: made.job.stopped)
    made.job.signal(signal.SIGUSR1)
    await made.wish("suspend")
    await made.round()
    assert [one.stopped for one in family(made.job)] == [True, True]
    assert made.status == 7
    made.job.signal(signal.SIGTERM)
    await made.round()
    assert made.job.wait(PATIENCE_S)


async def test_removal_that_is_not_to_be_graceful_kills_at_once(running: StartRun, jobs: Jobs) -> None:
    updates, starter = await running(STUBBORN, WantGracefulRemoval=False)
    job = job_process(starter)
    jobs.call("remove", jobs=["1.0"])
    await updates.round()
    assert job.wait(PATIENCE_S)


@pytest.mark.parametrize("name", ["JobMaxVacateTime", "KillSigTimeout"])
async def test_job_is_killed_when_its_own_time_is_over(running: StartRun, jobs: Jobs, name: str) -> None:
    updates, starter = await running(STUBBORN, **{name: 1})
    job = job_process(starter)
    jobs.call("remove", jobs=["1.0"])
    await updates.round()
    async with asyncio.timeout(PATIENCE_S):
        while job.alive:
            await updates.round()
            await asyncio.sleep(0.05)


async def test_agent_hears_from_the_database_that_a_job_shall_end(
    agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    await running(SLEEPER)
    runs = agent.runs
    # neither an update nor a beat is due within the test
    updates = updates_of(agent, tmp_path, 3600.0)
    lease = Lease(agent.context, runs, "", lambda session: None)
    notifications = WorkNotifications(
        lease,
        WaitingFetches(1),
        LiveOutputs(agent.context.session, runs, partial(open_as_user, SignalRights())),
    )
    (job,) = [job_process(run.starter) for run in runs]  # type: ignore[arg-type]
    await lease.keep()
    lease._beat_due = float("inf")
    work = [
        asyncio.ensure_future(each)
        for each in (
            notifications.listen(),
            every(3600.0, lease.keep, lease.soon),
            every(3600.0, updates.round, runs.orders.came),
        )
    ]
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not notifications.listening:
                await asyncio.sleep(0.05)
            for payload in FORGED:
                agent.database.query("SELECT pg_notify('fetchwork_work', %s)", [payload])
            agent.call("remove", jobs=["1.0"])
            while job.alive:
                await asyncio.sleep(0.05)
    finally:
        for task in work:
            task.cancel()


async def test_job_is_known_though_what_ran_before_it_was_taken_for_it(agent: WatchingHooks) -> None:
    """As with a site's own PREPARE_JOB that goes on after it has called ours."""
    script = "sleep 1000 & echo ready; wait $!; sleep 1001 & wait"
    process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    try:
        starter = when_ready(process)
        agent.submit()
        await agent.begin(starter)
        runs = agent.runs
        (run,) = runs

        def seen() -> Process | None:
            runs.look()
            return run.job_process

        until(seen)
        before = seen()
        assert before is not None and before == job_process(starter)
        before.signal(signal.SIGKILL)
        until(lambda: seen() != before)
        assert seen() == job_process(starter)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def test_run_that_is_lost_is_killed_at_once(running: StartRun, jobs: Jobs) -> None:
    updates, starter = await running(STUBBORN)
    job = job_process(starter)
    jobs.give_up()
    await updates.round()
    assert job.wait(PATIENCE_S)


async def test_job_of_a_run_that_the_agent_has_dropped_is_killed(
    agent: WatchingHooks, running: StartRun
) -> None:
    updates, starter = await running(STUBBORN)
    job = job_process(starter)
    await updates.round()
    # as after a silence, when the database no longer lists the run
    agent.give_up()
    for run in agent.runs:
        agent.runs.ended(agent.context.session, run.run_id)
    await updates.round()
    assert job.wait(PATIENCE_S)


@pytest.fixture
async def next_agent(conninfo: str) -> AsyncIterator[WatchingHooks]:
    """The hooks of an agent that knows no runs."""
    agent = WatchingHooks(conninfo)
    yield agent
    await agent.close()


async def test_run_that_was_lost_while_no_agent_lived_is_killed_by_the_next(
    next_agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    # only the start is known: the agent dies before its first round
    _, starter = await running(STUBBORN)
    job = job_process(starter)
    assert stat.S_IMODE((tmp_path / "spool.runs").stat().st_mode) == 0o600
    next_agent.give_up()
    await updates_of(next_agent, tmp_path, 3600.0).round()
    assert job.wait(PATIENCE_S)


async def test_run_that_lives_is_left_to_the_next_agent(
    next_agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    _, starter = await running(SLEEPER)
    await updates_of(next_agent, tmp_path, 3600.0).round()
    assert job_process(starter).alive


@pytest.mark.parametrize("text", ["", "{", "[[1]]", '[[1, "", "FW", "slot1", "1.0", "1 1 0"]]', "[1]"])
async def test_spoilt_list_of_runs_stops_no_agent(
    agent: WatchingHooks, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spool.runs").write_text(text)
    await updates_of(agent, tmp_path, 0.0).round()
    assert "runs_not_read" in caplog.text
    caplog.clear()
    updates_of(agent, tmp_path, 0.0)
    assert caplog.text == ""


@pytest.mark.parametrize("known", [True, False])
async def test_job_whose_run_s_number_is_another_run_s_by_now_is_killed(
    running: StartRun, jobs: Jobs, known: bool
) -> None:
    """As after a restore of the database, which gave the run's number out again."""
    updates, starter = await running(SLEEPER)
    job = job_process(starter)
    if known:
        # the agent has heard of the other run
        (run,) = updates._runs
        updates._runs.left.append(dataclasses.replace(run))
        run.token = str(uuid.uuid4())
    else:
        jobs.database.query("UPDATE fetchwork.run SET token = gen_random_uuid()")
    await updates.round()
    assert job.wait(PATIENCE_S)


async def test_jobs_that_outlived_their_agent_are_told_in_the_beat(
    agent: WatchingHooks, running: StartRun, tmp_path: Path
) -> None:
    """A restored database offers no job before the jobs have ended that outlived it."""
    await running(SLEEPER)
    runs = agent.runs
    session = agent.context.session
    told = runs.alive(session)
    assert list(told) == [1]
    # the next agent knows the run from the notes that this one has written
    later = WatchedRuns(nothing, lambda session, slot: None)
    Updates(later, {"fw": agent.context}, tmp_path / "spool.runs", first_s=1.0, interval_s=1.0)
    assert later.alive(session) == told


@pytest.mark.parametrize("known_by", ["file", "database"])
async def test_after_a_restart_a_signal_reaches_the_job_of_a_chain_and_not_its_runner(
    agent: WatchingHooks, running: StartRun, jobs: Jobs, tmp_path: Path, known_by: str
) -> None:
    _, starter = await running(["sh", "-c", "sleep 1000 & echo ready; wait; exec sleep 1001"])
    (run,) = agent.runs
    if known_by == "database":
        jobs.database.query("UPDATE fetchwork.run SET chain = run_id")
    else:
        run.chain = Chain.begun_before(run.run_id, run.slot)
        agent.runs.on_start()
    later = WatchedRuns(nothing, lambda session, slot: None)
    updates = Updates(later, {"fw": agent.context}, tmp_path / "spool.runs", first_s=0.0, interval_s=0.0)
    await later.take_over(agent.context, PATIENCE_S)
    jobs.call("remove", jobs=["1.0"])
    runner = job_process(starter)
    (job,) = runner.children()
    await updates.round()
    assert job.wait(PATIENCE_S)
    assert runner.alive
    await later.close()
