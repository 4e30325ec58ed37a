"""Jobs that outlive their starter, and runs that a new agent finds."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import orphans
from fetchwork.db.calls.hosts import HostRun
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.process import Process
from tests.agent.conftest import (
    Child,
    Hooks,
    Replay,
    WatchingHooks,
    attributes_of,
    nothing,
    process_of,
    slot_ad,
)
from tests.support.there import there
from tests.support.waiting import PATIENCE_S, until

# its children: the starter's hooks, and the job
STARTER_SCRIPT = (
    "bash -c 'exec -a /hooks/FW/update_job_info sleep 60' &"
    " bash -c 'exec -a /hooks/FW/job_exit.py sleep 60' & sleep 61 & echo ready; wait"
)
COMMANDS = [b"/hooks/FW/update_job_info", b"/hooks/FW/job_exit.py", b"sleep"]

MakeHooks = Callable[[Replay], Hooks]


@pytest.fixture
def sleeper() -> Iterator[Child]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
async def make_hooks(conninfo: str) -> AsyncIterator[MakeHooks]:
    """Makes hooks that a new agent of their own serves: make_hooks(replay)."""
    made = []

    def make(replay: Replay) -> Hooks:
        made.append(WatchingHooks(conninfo, replay=replay))
        return made[-1]

    yield make
    for hooks in made:
        await hooks.close()


async def started_job(hooks: Hooks, process: Child) -> bytes:
    """A running job whose process is ``process``, and whose starter is gone."""
    hooks.submit()
    job = await hooks.started_job()
    await hooks.update(job, JobState="Running", JobPid=process.pid, JobStartDate=started_at(process))
    return job


def started_at(process: Child) -> int:
    """The start time of a process, which may be some time ago."""
    at = there(process_of(process).started_at)
    return int(at)


def test_job_among_a_starters_children_is_the_one_that_is_no_hook() -> None:
    starter = subprocess.Popen(["bash", "-c", STARTER_SCRIPT], stdout=subprocess.PIPE, process_group=0)
    try:
        assert starter.stdout.readline() == b"ready\n"
        identity = process_of(starter)
        # between fork and exec a hook has its parent's command line, and a job's differs from its later one
        until(lambda: [command_of(one).split(b"\0")[0] for one in identity.children()] == COMMANDS)
        found = there(orphans.child_of(identity))
        assert command_of(found) == b"sleep\x0061\x00"
    finally:
        os.killpg(starter.pid, 9)
        starter.wait()
        starter.stdout.close()
    assert orphans.child_of(identity) is None


def command_of(process: Process) -> bytes:
    return Path(f"/proc/{process.pid}/cmdline").read_bytes()


def test_process_on_record_is_known_by_its_start_as_well(sleeper: Child) -> None:
    def recorded(job_pid: int | None, job_start_date: int) -> Process | None:
        token = UUID(int=1)
        run = HostRun(
            1,
            token,
            1,
            0,
            "running",
            "slot1@vm",
            "nobody",
            None,
            None,
            job_pid,
            None,
            job_start_date,
            None,
            False,
        )
        return orphans.recorded_process(run)

    began = started_at(sleeper)
    assert recorded(sleeper.pid, began) == process_of(sleeper)
    # another process has this pid now
    assert recorded(sleeper.pid, began - 100) is None
    assert recorded(None, began) is None


async def test_orphan_that_heeds_no_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "VACATE_S", 0.4)
    job = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo ready; sleep 60"], stdout=subprocess.PIPE, process_group=0
    )
    assert job.stdout.readline() == b"ready\n"
    assert await orphans.end(process_of(job), SignalRights()) is None
    assert job.wait(PATIENCE_S) == -9
    job.stdout.close()


async def test_first_fetch_of_a_new_agent_leaves_an_orphan_its_job(
    hooks: Hooks, make_hooks: MakeHooks, sleeper: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started_job(hooks, sleeper)
    may_end, end_of_run = asyncio.Event(), orphans.end_of_run

    async def later(run: LiveRun, rights: SignalRights) -> None:
        await may_end.wait()
        await end_of_run(run, rights)

    monkeypatch.setattr(orphans, "end_of_run", later)
    fresh = make_hooks(nothing)
    assert await fresh.fetch() == b""
    assert hooks.job_of("1.0")["jobstatus"] == 2
    may_end.set()
    # the job is ended, which this account may do, and only then it is offered again
    async with asyncio.timeout(PATIENCE_S):
        while not (job := await fresh.fetch()):
            await asyncio.sleep(0.05)
    assert sleeper.poll() is not None
    assert attributes_of(job)["FetchWorkRunId"] == 2


async def test_fetch_gives_no_run_up_whose_report_can_not_be_delivered(
    hooks: Hooks, make_hooks: MakeHooks
) -> None:
    async def replay() -> None:
        raise DatabaseUnavailable("database is starting up")

    hooks.submit()
    await hooks.started_job()
    fresh = make_hooks(replay)
    answer = await fresh.ask("fetch_work", slot_ad())
    assert answer.reply.code == "unavailable"
    assert hooks.job_of("1.0")["jobstatus"] == 2


async def test_claim_that_postgresql_forgot_in_a_crash_is_taken_back(hooks: Hooks) -> None:
    hooks.submit()
    assert await hooks.fetch()
    # as if the claim had never been made
    hooks.database.query("DELETE FROM fetchwork.run")
    hooks.database.query("SELECT fetchwork.enqueue(1, 0)")
    job = await hooks.fetch()
    assert attributes_of(job)["FetchWorkRunId"] == 2


async def test_report_of_a_forgotten_claim_is_no_poison_unless_something_ran(hooks: Hooks) -> None:
    hooks.submit()
    job = await hooks.fetch()
    hooks.database.query("DELETE FROM fetchwork.run")
    # PREPARE_JOB was refused, so the starter reports only evict
    answer = await hooks.exit(job, "evict")
    assert (answer.reply.code, answer.outcome) == ("", "forgotten")
    assert (await hooks.exit(job, ExitCode=0)).reply.code == "denied"
