"""Jobs without a JOB_EXIT: their outcome is read from their starters' logs."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork import config
from fetchwork.agent import main
from fetchwork.agent.runs.ends import Ends
from fetchwork.agent.runs.updates import Updates
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.db.database import Database
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.handlers.context import Answer
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.starterlog import StarterLogs
from fetchwork.hook.wire import Request
from fetchwork.process import Process
from tests.agent.conftest import Hooks, JobOf, Submit, attributes_of, give_up, slot_ad
from tests.support.waiting import PATIENCE_S
from tests.support.waiting import until_async as until
from tests.unit.test_starterend import BEGUN, EVICTED, EXITED, KILLED
from tests.unit.test_starterlog import NO_PROGRAM, WRITTEN

SLOT = slot_ad(FetchWorkPlain=True)


class Host(Hooks):
    """A host's hooks, with an agent that reports ends."""

    def __init__(self, conninfo: str, directory: Path) -> None:
        runs = WatchedRuns(self.deliver, lambda session, slot: None)
        super().__init__(conninfo, runs=runs, starter_logs=StarterLogs(directory, of_users=False))
        self.watched = runs
        runs.tell_end = Ends(runs, self.keep).tell
        self.down = False
        #: the number of reports that did not fit into the spool; None while there is room
        self.refused: int | None = None

    async def keep(self, report: Request) -> None:
        if self.refused is not None:
            self.refused += 1
            raise FetchworkError("cannot write a report to spool '/spool': No space left on device")
        await super().keep(report)

    async def deliver(self) -> None:
        """Deliver what is spooled."""
        if self.down:
            raise DatabaseUnavailable("database is starting up")
        while self.spooled:
            report = self.spooled.pop(0)
            await self.ask("job_exit", report.body, report.arg, slot=report.slot)

    async def begin(self, starter: "Starter", slot: bytes = SLOT) -> bytes:
        """The ad of a job that a starter has begun to run."""
        ad = await self.fetch(slot)
        await self.reply("accept", ad, slot)
        assert (await self.start(ad, starter=starter.identity)).outcome == "started"
        starter.log = Path(str(attributes_of(ad)["StarterUserLog"]))
        return ad

    async def close(self) -> None:
        await self.watched.close()
        await self.context.session.close()


class Starter:
    """A process that plays a starter and ends when a test says so."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        found = Process.find(self.process.pid)
        assert found is not None
        self.identity = found
        self.log = Path("/nonexistent")

    def end(self, written: str | None = None) -> None:
        if written is not None:
            self.log.write_text(written)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def starter() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    starter.end()


@pytest.fixture
async def make_host(conninfo: str, tmp_path: Path) -> AsyncIterator[Callable[[], Host]]:
    made: list[Host] = []

    def make() -> Host:
        made.append(Host(conninfo, tmp_path / "starter"))
        return made[-1]

    yield make
    for host in made:
        await host.close()


@pytest.fixture
def host(make_host: Callable[[], Host]) -> Host:
    return make_host()


def ended(row: dict[str, Any]) -> tuple[object, ...]:
    return row["jobstatus"], row["exitbysignal"], row["exitcode"], row["exitsignal"]


async def test_job_ends_as_its_starter_wrote(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter
) -> None:
    job = submit()
    ad = await host.begin(starter)
    assert attributes_of(ad)["HookKeyword"] == "FW_PLAIN"
    starter.end(BEGUN + EXITED)
    await until(lambda: job_of(job)["jobstatus"] == 4)
    assert ended(job_of(job)) == (4, False, 3, None)
    assert job_of(job)["remoteusercpu"] == 93784
    # the log is not read any more
    await until(lambda: not starter.log.exists())
    await until(lambda: len(host.runs) == 0)


async def test_end_is_reported_once(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, tell = [], host.watched.tell_end

    async def count(run: LiveRun, identity: Process) -> None:
        told.append(identity)
        await tell(run, identity)

    monkeypatch.setattr(host.watched, "tell_end", count)
    job = submit()
    await host.begin(starter)
    starter.end(BEGUN + EXITED)
    await until(lambda: job_of(job)["jobstatus"] == 4)
    await until(lambda: len(host.runs) == 0)
    assert told == [starter.identity]


async def test_job_that_a_signal_ended_did_so(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    starter.end(BEGUN + KILLED)
    await until(lambda: job_of(job)["jobstatus"] == 4)
    assert ended(job_of(job)) == (4, True, None, 11)


async def test_evicted_job_waits_again(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    starter.end(BEGUN + EVICTED)
    await until(lambda: job_of(job)["jobstatus"] == 1)
    assert outcomes(database) == ["evicted"]


async def test_job_that_could_not_be_executed_is_held(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    starter.end(BEGUN + WRITTEN)
    await until(lambda: job_of(job)["jobstatus"] == 5)
    assert job_of(job)["holdreason"].endswith(NO_PROGRAM.text)
    assert job_of(job)["holdreasoncode"] == 6


async def test_job_of_a_starter_that_was_killed_is_lost(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    starter.end(BEGUN)
    await until(lambda: job_of(job)["jobstatus"] == 1)
    assert outcomes(database) == ["lost"]


async def test_job_that_was_ended_before_it_began_is_not_lost(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    starter.end("")
    await until(lambda: job_of(job)["jobstatus"] == 1)
    assert outcomes(database) == ["could_not_start"]


async def test_job_that_was_seen_to_run_is_lost_where_nothing_could_be_written(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    (run,) = host.runs
    process = Starter()
    run.job_process = process.identity
    process.end()
    # as on a full disk
    starter.end("")
    await until(lambda: job_of(job)["jobstatus"] == 1)
    assert outcomes(database) == ["lost"]


async def test_job_that_ran_under_the_agent_before_is_lost_where_nothing_could_be_written(
    make_host: Callable[[], Host], submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    before = make_host()
    ad = await before.begin(starter)
    await before.update(ad, JobState="Running", JobPid=4242)
    await before.watched.close()
    starter.end("")
    after = make_host()
    await after.watched.take_over(after.context, PATIENCE_S)
    await until(lambda: job_of(job)["jobstatus"] == 1)
    assert outcomes(database) == ["lost"]


async def test_end_counts_before_the_slot_gets_its_next_job(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the agent learns of the starter's end only by this fetch
    monkeypatch.setattr("os.pidfd_open", refused)
    first, second = submit(), submit()
    await host.begin(starter)
    starter.end(BEGUN + EXITED)
    assert attributes_of(await host.fetch(SLOT))["ClusterId"] == int(second.partition(".")[0])
    assert ended(job_of(first)) == (4, False, 3, None)


async def test_run_whose_end_is_slow_to_be_reported_is_not_lost_to_its_slot(
    host: Host,
    submit: Submit,
    job_of: JobOf,
    database: Database,
    starter: Starter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = submit()
    await host.begin(starter)
    (run,) = host.runs
    goes_on, tell = asyncio.Event(), host.watched.tell_end

    async def slow(run: LiveRun, identity: Process) -> None:
        await goes_on.wait()
        await tell(run, identity)

    monkeypatch.setattr(host.watched, "tell_end", slow)
    starter.end(BEGUN + EXITED)
    await until(lambda: run.exiting > 0)
    assert not await host.watched.free_slot(host.context, run.slot, b"", 0.5)
    assert job_of(job)["jobstatus"] == 2
    goes_on.set()
    await until(lambda: job_of(job)["jobstatus"] == 4)
    assert outcomes(database) == ["completed"]


def refused(pid: int) -> int:
    raise OSError(38, "Function not implemented")


async def test_agent_that_comes_after_the_end_finds_it(
    make_host: Callable[[], Host], submit: Submit, job_of: JobOf, starter: Starter
) -> None:
    job = submit()
    before = make_host()
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN + EXITED)
    # the slot asks for its next job
    assert await make_host().fetch(SLOT) == b""
    await until(lambda: job_of(job)["jobstatus"] == 4)
    assert ended(job_of(job)) == (4, False, 3, None)


async def test_agent_that_comes_before_the_start_tells_the_end(
    make_host: Callable[[], Host], submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    before, after = make_host(), make_host()
    ad = await before.fetch(SLOT)
    await before.reply("accept", ad, SLOT)
    await before.watched.close()
    await after.watched.take_over(after.context, PATIENCE_S)
    assert (await after.start(ad, starter=starter.identity)).outcome == "started"
    starter.log = Path(str(attributes_of(ad)["StarterUserLog"]))
    starter.end(BEGUN + EXITED)
    await until(lambda: outcomes(database) != [])
    assert outcomes(database) == ["completed"]
    assert ended(job_of(job)) == (4, False, 3, None)


async def test_no_run_is_among_the_others_before_it_is_watched(
    make_host: Callable[[], Host], submit: Submit, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit()
    before, after = make_host(), make_host()
    await before.begin(starter)
    await before.watched.close()
    assert after.context.starter_logs is not None
    tell, seen = StarterLogs.tell_end, []

    async def look(logs: StarterLogs, run_id: int, token: str) -> bool:
        seen.append(len(after.runs))
        return await tell(logs, run_id, token)

    monkeypatch.setattr(StarterLogs, "tell_end", look)
    await after.watched.take_over(after.context, PATIENCE_S)
    assert seen == [0]
    assert [run.plain for run in after.runs] == [True]


def agent_of(conninfo: str, directory: Path) -> main.Agent:
    tables = {
        "database": {"main": {"conninfo": conninfo}},
        "agent": {"user": "", "socket": str(directory / "sock"), "spool": str(directory / "spool")},
        "keyword": {"FW": {}},
        "host": {"name": "vm"},
    }
    return main.Agent(config.from_dict(tables))


async def test_what_tells_an_end_stays_while_the_database_may_know_its_run(
    conninfo: str, tmp_path: Path
) -> None:
    agent = agent_of(conninfo, tmp_path)
    (context,) = agent.contexts.values()
    assert context.starter_logs is not None
    written = Path(str(await context.starter_logs.make(7, "token", None, tells_end=True)))
    # the log of a job that has run for more than a day
    os.utime(written, (0, 0))
    await agent._clean()
    assert written.exists()
    await agent.runs.take_over(context, PATIENCE_S)
    await agent._clean()
    assert not written.exists()
    await context.session.close()


async def test_result_counts_though_the_run_was_lost_while_no_agent_lived(
    make_host: Callable[[], Host],
    submit: Submit,
    job_of: JobOf,
    database: Database,
    starter: Starter,
    tmp_path: Path,
) -> None:
    job = submit()
    before, after = make_host(), make_host()
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN + EXITED)
    give_up(database)
    assert job_of(job)["jobstatus"] == 1
    updates = updates_of(after, tmp_path)
    await updates.tell_ends()
    assert ended(job_of(job)) == (4, False, 3, None)
    # the log is not read any more, though this agent never had the run
    await until(lambda: not starter.log.exists())
    # once
    await updates.tell_ends()
    assert outcomes(database) == ["completed"]


async def test_agent_tells_the_ends_of_the_agent_before(
    conninfo: str, submit: Submit, job_of: JobOf, database: Database, starter: Starter, tmp_path: Path
) -> None:
    job = submit()
    before = Host(conninfo, tmp_path / "spool.starter")
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.close()
    starter.end(BEGUN + EXITED)
    give_up(database)
    agent = agent_of(conninfo, tmp_path)
    work = asyncio.gather(*agent._periodic_work())
    try:
        await until(lambda: job_of(job)["jobstatus"] == 4)
        assert ended(job_of(job)) == (4, False, 3, None)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await agent.runs.close()
        for session in agent.sessions:
            await session.close()


async def test_what_tells_no_end_goes_once_the_run_is_known_to_be_over(
    make_host: Callable[[], Host], submit: Submit, database: Database, starter: Starter, tmp_path: Path
) -> None:
    submit()
    before, after = make_host(), make_host()
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN)
    updates = updates_of(after, tmp_path)
    await updates.tell_ends()
    # the database may still have the run
    assert starter.log.exists()
    give_up(database)
    await after.watched.take_over(after.context, PATIENCE_S)
    await updates.tell_ends()
    await until(lambda: not starter.log.exists())


@pytest.mark.parametrize("written", ["", BEGUN[:3]], ids=["nothing", "a part"])
async def test_job_that_ran_is_not_told_to_have_never_begun_for_a_full_disk(
    make_host: Callable[[], Host],
    submit: Submit,
    database: Database,
    starter: Starter,
    tmp_path: Path,
    written: str,
) -> None:
    submit()
    before, after = make_host(), make_host()
    updates_of(before, tmp_path)
    ad = await before.begin(starter)
    await before.update(ad, JobState="Running", JobPid=4242)
    await before.watched.close()
    starter.end(written)
    updates = updates_of(after, tmp_path)
    # before it has read the runs that the database lists
    await updates.tell_ends()
    assert outcomes(database) == []
    await after.watched.take_over(after.context, PATIENCE_S)
    await updates.tell_ends()
    await until(lambda: outcomes(database) != [])
    assert outcomes(database) == ["lost"]


def updates_of(host: Host, directory: Path) -> Updates:
    contexts = {"fw": host.context}
    return Updates(host.watched, contexts, directory / "spool.runs", first_s=3600.0, interval_s=3600.0)


async def test_end_in_an_outage_is_spooled_as_it_was_judged(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit()
    await host.begin(starter)
    (run,) = host.runs
    assert run.become("killed", "no answer of the database for a lease")
    host.down = True

    async def away(*args: object, **more: object) -> str:
        raise DatabaseUnavailable("database is starting up")

    monkeypatch.setattr(host.context.session.reports, "finish", away)
    starter.end(BEGUN + KILLED)
    await until(lambda: bool(host.spooled))
    assert host.spooled[0].arg == "evict"
    assert job_of(job)["jobstatus"] == 2 and len(host.runs) == 1
    monkeypatch.undo()
    host.down = False
    await until(lambda: job_of(job)["jobstatus"] == 1)
    await until(lambda: len(host.runs) == 0)


async def test_end_that_can_neither_be_delivered_nor_spooled_counts_after_the_outage(
    host: Host,
    submit: Submit,
    job_of: JobOf,
    database: Database,
    starter: Starter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = submit()
    await host.begin(starter)
    host.down, host.refused = True, 0

    async def away(*args: object, **more: object) -> str:
        raise DatabaseUnavailable("database is starting up")

    monkeypatch.setattr(host.context.session.reports, "finish", away)
    starter.end(BEGUN + EXITED)
    await until(lambda: (host.refused or 0) > 1)
    assert job_of(job)["jobstatus"] == 2 and starter.log.exists()
    monkeypatch.undo()
    host.down = False
    await until(lambda: job_of(job)["jobstatus"] == 4)
    assert ended(job_of(job)) == (4, False, 3, None)
    await until(lambda: len(host.runs) == 0)
    assert outcomes(database) == ["completed"]


async def test_end_of_a_run_before_this_agent_is_told_until_it_is_kept(
    make_host: Callable[[], Host],
    submit: Submit,
    job_of: JobOf,
    database: Database,
    starter: Starter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = submit()
    before, after = make_host(), make_host()
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN + EXITED)
    updates = updates_of(after, tmp_path)
    after.refused = 0

    async def away(*args: object, **more: object) -> str:
        raise DatabaseUnavailable("database is starting up")

    monkeypatch.setattr(after.context.session.reports, "finish", away)
    await updates.tell_ends()
    await updates.tell_ends()
    assert after.refused > 1
    monkeypatch.undo()
    await updates.tell_ends()
    assert ended(job_of(job)) == (4, False, 3, None)
    await updates.tell_ends()
    assert outcomes(database) == ["completed"]


async def test_end_that_waits_for_its_database_delays_no_update(
    make_host: Callable[[], Host],
    submit: Submit,
    job_of: JobOf,
    starter: Starter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = submit(), submit()
    before, after = make_host(), make_host()
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN + EXITED)
    goes_on, asked, tell = asyncio.Event(), asyncio.Event(), after.watched.tell_end

    async def slow(run: LiveRun, identity: Process) -> Answer | None:
        asked.set()
        await goes_on.wait()
        return await tell(run, identity)

    monkeypatch.setattr(after.watched, "tell_end", slow)
    updates = updates_of(after, tmp_path)
    telling = asyncio.create_task(updates.tell_ends())
    other = Starter()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
            await after.begin(other, slot_ad(FetchWorkPlain=True, Name="slot2@vm"))
            await updates.round()
        assert [run.job for run in updates._due] == [second]
        assert job_of(first)["jobstatus"] == 2
        goes_on.set()
        await telling
        assert ended(job_of(first)) == (4, False, 3, None)
    finally:
        other.end()
        telling.cancel()


async def test_end_that_is_kept_nowhere_is_known_to_the_agent_after_the_next(
    make_host: Callable[[], Host],
    submit: Submit,
    job_of: JobOf,
    database: Database,
    starter: Starter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = submit()
    before, between, after = make_host(), make_host(), make_host()
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN + EXITED)
    give_up(database)
    between.refused = 0

    async def away(*args: object, **more: object) -> str:
        raise DatabaseUnavailable("database is starting up")

    monkeypatch.setattr(between.context.session.reports, "finish", away)
    updates = updates_of(between, tmp_path)
    await updates.tell_ends()
    await updates.round()
    assert between.refused == 1
    await updates_of(after, tmp_path).tell_ends()
    assert ended(job_of(job)) == (4, False, 3, None)


async def test_policy_of_a_job_that_ended_while_no_agent_lived_decides_about_it(
    make_host: Callable[[], Host], submit: Submit, job_of: JobOf, starter: Starter, tmp_path: Path
) -> None:
    job = submit(ad={"OnExitHold": "/Expr(ExitCode == 3)/"})
    before, after = make_host(), make_host()
    updates_of(before, tmp_path)
    await before.begin(starter)
    await before.watched.close()
    starter.end(BEGUN + EXITED)
    # before it has read the runs that it takes over
    await updates_of(after, tmp_path).tell_ends()
    assert job_of(job)["jobstatus"] == 5


async def test_hook_that_reports_all_the_same_counts_once(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    ad = await host.begin(starter)
    starter.log.write_text(BEGUN + EXITED)
    assert (await host.exit(ad, starter=starter.identity, ExitCode=0, JobPid=17)).outcome == "completed"
    starter.end()
    await until(lambda: not starter.log.exists())
    assert ended(job_of(job)) == (4, False, 0, None)
    assert outcomes(database) == ["completed"]


async def test_job_whose_start_was_not_confirmed_waits_again_without_blame(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    ad = await host.fetch(SLOT)
    await host.reply("accept", ad, SLOT)
    original = host.context.session.reports.start

    async def away(*args: object, **more: object) -> str:
        raise DatabaseUnavailable("database is starting up")

    host.context.session.reports.start = away
    assert (await host.start(ad, starter=starter.identity)).reply.code == "unavailable"
    host.context.session.reports.start = original
    starter.end()
    await until(lambda: outcomes(database) == ["withdrawn"])
    assert job_of(job)["jobstatus"] == 1


async def test_start_that_was_not_confirmed_is_withdrawn_after_the_outage(
    host: Host,
    submit: Submit,
    job_of: JobOf,
    database: Database,
    starter: Starter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = submit()
    ad = await host.fetch(SLOT)
    await host.reply("accept", ad, SLOT)

    async def away(*args: object, **more: object) -> str:
        raise DatabaseUnavailable("database is starting up")

    host.down = True
    monkeypatch.setattr(host.context.session.reports, "start", away)
    assert (await host.start(ad, starter=starter.identity)).reply.code == "unavailable"
    monkeypatch.setattr(host.context.session.database, "run", away)
    starter.end()
    await until(lambda: bool(host.spooled))
    monkeypatch.undo()
    host.down = False
    await host.deliver()
    assert outcomes(database) == ["withdrawn"]
    assert job_of(job)["jobstatus"] == 1


async def test_start_that_was_refused_leaves_the_other_starters_run_alone(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter
) -> None:
    job = submit()
    ad = await host.begin(starter)
    second = Starter()
    try:
        assert (await host.start(ad, starter=second.identity)).outcome == "refused"
    finally:
        second.end()
    assert job_of(job)["jobstatus"] == 2
    starter.end(BEGUN + EXITED)
    await until(lambda: job_of(job)["jobstatus"] == 4)


async def test_starter_that_names_another_ones_slot_ends_nothing_there(
    host: Host, submit: Submit, job_of: JobOf, starter: Starter
) -> None:
    victim = submit()
    await host.begin(starter)
    other = submit()
    rogue = Starter()
    try:
        # the hook runs as the job's user, who may name any slot
        await host.begin(rogue, slot_ad(FetchWorkPlain=True, Name="slot2@vm"))
        assert len(host.runs) == 2
    finally:
        rogue.end(BEGUN + EXITED)
    await until(lambda: job_of(other)["jobstatus"] == 4)
    assert job_of(victim)["jobstatus"] == 2
    # the database learns of the end before the agent does
    await until(lambda: len(host.runs) == 1)
    (run,) = host.runs
    assert list(host.watched.alive(host.context.session)) == [run.run_id]


async def test_words_of_a_job_that_outlives_its_starter_are_not_believed(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    ad = await host.begin(starter)
    (run,) = host.runs
    orphan = Starter()
    run.job_process = orphan.identity
    assert attributes_of(ad)["FetchWorkRunId"] == run.run_id
    starter.end(BEGUN + EXITED)
    # the job is ended, and only then offered again
    await until(lambda: job_of(job)["jobstatus"] == 1)
    assert orphan.process.wait() != 0
    assert outcomes(database) == ["lost"]


async def test_removed_job_is_removed(
    host: Host, submit: Submit, job_of: JobOf, database: Database, starter: Starter
) -> None:
    job = submit()
    await host.begin(starter)
    database.query("SELECT fetchwork.remove(ARRAY[%s])", [job])
    starter.end(BEGUN + KILLED)
    await until(lambda: outcomes(database) == ["removed"])
    assert job_of(job)["jobstatus"] == 3


@pytest.mark.parametrize(
    ("slot", "ad"),
    [(slot_ad(), {}), (SLOT, {"FetchWorkTailBytes": 100}), (SLOT, {"DeferralTime": 5})],
    ids=["slot without the keyword", "job with a tail", "job with a time"],
)
async def test_job_that_needs_job_exit_has_its_keyword(
    host: Host, submit: Submit, slot: bytes, ad: dict[str, object]
) -> None:
    submit(ad=ad)
    assert attributes_of(await host.fetch(slot))["HookKeyword"] == "FW"


def outcomes(database: Database) -> list[str]:
    rows = database.query("SELECT outcome::text FROM fetchwork.run_history ORDER BY run_id")
    return [row["outcome"] for row in rows]
