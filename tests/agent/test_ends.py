"""Jobs without a JOB_EXIT: their outcome is read from their starters' logs."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork import config
from fetchwork.agent import main
from fetchwork.agent.runs.ends import Ends
from fetchwork.agent.runs.updates import Updates
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.handlers.context import Answer
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.starterlog import StarterLogs
from fetchwork.hook.wire import Request
from fetchwork.process import Process
from tests.agent.conftest import WatchingHooks, attributes_of, process_of, slot_ad
from tests.support.starter_logs import BEGUN, EVICTED, EXITED, KILLED, NO_PROGRAM, WRITTEN
from tests.support.waiting import PATIENCE_S
from tests.support.waiting import until_async as until

SLOT = slot_ad(FetchWorkPlain=True)


class Host(WatchingHooks):
    """A host's hooks, with an agent that reports ends."""

    def __init__(self, conninfo: str, directory: Path) -> None:
        super().__init__(
            conninfo,
            replay=self.deliver,
            starter_logs=StarterLogs(directory / "spool.starter", of_users=False),
        )
        self.runs.tell_end = Ends(self.runs, self.keep).tell
        self.conninfo, self.directory = conninfo, directory
        self.others: list[Host] = []
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

    async def begun(self, starter: "Starter", slot: bytes = SLOT) -> bytes:
        """The ad of a job that a starter has begun to run; the starter's log is to be written."""
        ad = await self.begin(starter.identity, slot)
        starter.log = Path(str(attributes_of(ad)["StarterUserLog"]))
        return ad

    def another(self) -> "Host":
        """The same host with another agent."""
        self.others.append(Host(self.conninfo, self.directory))
        return self.others[-1]

    async def followed(self, starter: "Starter", written: str = BEGUN + EXITED) -> "Host":
        """The same host with the agent after one that noted a run, and was gone when its starter ended."""
        updates_of(self)
        await self.begun(starter)
        await self.runs.close()
        starter.end(written)
        return self.another()

    async def close(self) -> None:
        await super().close()
        for other in self.others:
            await other.close()


class Starter:
    """A process that plays a starter and ends when a test says so."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.identity = process_of(self.process)
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
async def host(conninfo: str, tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(conninfo, tmp_path)
    yield host
    await host.close()


async def away(*args: object, **more: object) -> str:
    raise DatabaseUnavailable("database is starting up")


def updates_of(host: Host) -> Updates:
    file = host.directory / "spool.runs"
    return Updates(host.runs, {"fw": host.context}, file, first_s=3600.0, interval_s=3600.0)


def ended(row: dict[str, Any]) -> tuple[object, ...]:
    return row["jobstatus"], row["exitbysignal"], row["exitcode"], row["exitsignal"]


async def test_job_ends_as_its_starter_wrote(host: Host, starter: Starter) -> None:
    job = host.submit()
    ad = await host.begun(starter)
    assert attributes_of(ad)["HookKeyword"] == "FW_PLAIN"
    starter.end(BEGUN + EXITED)
    await until(lambda: host.job_of(job)["jobstatus"] == 4)
    assert ended(host.job_of(job)) == (4, False, 3, None)
    assert host.job_of(job)["remoteusercpu"] == 93784
    # the log is not read any more
    await until(lambda: not starter.log.exists())
    await until(lambda: len(host.runs) == 0)


async def test_end_is_reported_once(host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    told, tell = [], host.runs.tell_end

    async def count(run: LiveRun, identity: Process) -> None:
        told.append(identity)
        await tell(run, identity)

    monkeypatch.setattr(host.runs, "tell_end", count)
    job = host.submit()
    await host.begun(starter)
    starter.end(BEGUN + EXITED)
    await until(lambda: host.job_of(job)["jobstatus"] == 4)
    await until(lambda: len(host.runs) == 0)
    assert told == [starter.identity]


async def test_job_that_a_signal_ended_did_so(host: Host, starter: Starter) -> None:
    job = host.submit()
    await host.begun(starter)
    starter.end(BEGUN + KILLED)
    await until(lambda: host.job_of(job)["jobstatus"] == 4)
    assert ended(host.job_of(job)) == (4, True, None, 11)


@pytest.mark.parametrize(
    ("written", "outcome"),
    [(BEGUN + EVICTED, "evicted"), (BEGUN, "lost"), ("", "could_not_start")],
    ids=["evicted", "its starter was killed", "its starter was killed before it began"],
)
async def test_job_that_did_not_end_by_itself_waits_again(
    host: Host, starter: Starter, written: str, outcome: str
) -> None:
    job = host.submit()
    await host.begun(starter)
    starter.end(written)
    await until(lambda: host.job_of(job)["jobstatus"] == 1)
    assert outcomes(host) == [outcome]


async def test_job_that_could_not_be_executed_is_held(host: Host, starter: Starter) -> None:
    job = host.submit()
    await host.begun(starter)
    starter.end(BEGUN + WRITTEN)
    await until(lambda: host.job_of(job)["jobstatus"] == 5)
    assert host.job_of(job)["holdreason"].endswith(NO_PROGRAM.text)
    assert host.job_of(job)["holdreasoncode"] == 6


async def test_job_that_was_seen_to_run_is_lost_where_nothing_could_be_written(
    host: Host, starter: Starter
) -> None:
    job = host.submit()
    await host.begun(starter)
    (run,) = host.runs
    process = Starter()
    run.job_process = process.identity
    process.end()
    # as on a full disk
    starter.end("")
    await until(lambda: host.job_of(job)["jobstatus"] == 1)
    assert outcomes(host) == ["lost"]


async def test_job_that_ran_under_the_agent_before_is_lost_where_nothing_could_be_written(
    host: Host, starter: Starter
) -> None:
    job = host.submit()
    ad = await host.begun(starter)
    await host.update(ad, JobState="Running", JobPid=4242)
    await host.runs.close()
    starter.end("")
    after = host.another()
    await after.runs.take_over(after.context, PATIENCE_S)
    await until(lambda: host.job_of(job)["jobstatus"] == 1)
    assert outcomes(host) == ["lost"]


async def test_end_counts_before_the_slot_gets_its_next_job(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the agent learns of the starter's end only by this fetch
    monkeypatch.setattr("os.pidfd_open", refused)
    first, second = host.submit(), host.submit()
    await host.begun(starter)
    starter.end(BEGUN + EXITED)
    assert attributes_of(await host.fetch(SLOT))["ClusterId"] == int(second.partition(".")[0])
    assert ended(host.job_of(first)) == (4, False, 3, None)


async def test_run_whose_end_is_slow_to_be_reported_is_not_lost_to_its_slot(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = host.submit()
    await host.begun(starter)
    (run,) = host.runs
    goes_on, tell = asyncio.Event(), host.runs.tell_end

    async def slow(run: LiveRun, identity: Process) -> None:
        await goes_on.wait()
        await tell(run, identity)

    monkeypatch.setattr(host.runs, "tell_end", slow)
    starter.end(BEGUN + EXITED)
    await until(lambda: run.exiting > 0)
    assert not await host.runs.free_slot(host.context, run.slot, b"", 0.5)
    assert host.job_of(job)["jobstatus"] == 2
    goes_on.set()
    await until(lambda: host.job_of(job)["jobstatus"] == 4)
    assert outcomes(host) == ["completed"]


def refused(pid: int) -> int:
    raise OSError(38, "Function not implemented")


async def test_agent_that_comes_after_the_end_finds_it(host: Host, starter: Starter) -> None:
    job = host.submit()
    await host.begun(starter)
    await host.runs.close()
    starter.end(BEGUN + EXITED)
    # the slot asks for its next job
    assert await host.another().fetch(SLOT) == b""
    await until(lambda: host.job_of(job)["jobstatus"] == 4)
    assert ended(host.job_of(job)) == (4, False, 3, None)


async def test_agent_that_comes_before_the_start_tells_the_end(host: Host, starter: Starter) -> None:
    job = host.submit()
    after = host.another()
    ad = await host.fetch(SLOT)
    await host.reply("accept", ad, SLOT)
    await host.runs.close()
    await after.runs.take_over(after.context, PATIENCE_S)
    assert (await after.start(ad, starter=starter.identity)).outcome == "started"
    starter.log = Path(str(attributes_of(ad)["StarterUserLog"]))
    starter.end(BEGUN + EXITED)
    await until(lambda: outcomes(host) != [])
    assert outcomes(host) == ["completed"]
    assert ended(host.job_of(job)) == (4, False, 3, None)


async def test_no_run_is_among_the_others_before_it_is_watched(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.submit()
    after = host.another()
    await host.begun(starter)
    await host.runs.close()
    assert after.context.starter_logs is not None
    tell, seen = StarterLogs.tell_end, []

    async def look(logs: StarterLogs, run_id: int, token: str) -> bool:
        seen.append(len(after.runs))
        return await tell(logs, run_id, token)

    monkeypatch.setattr(StarterLogs, "tell_end", look)
    await after.runs.take_over(after.context, PATIENCE_S)
    assert seen == [0]
    assert [run.plain for run in after.runs] == [True]


def agent_of(host: Host) -> main.Agent:
    directory = host.directory
    tables = {
        "database": {"main": {"conninfo": host.conninfo}},
        "agent": {"user": "", "socket": str(directory / "sock"), "spool": str(directory / "spool")},
        "keyword": {"FW": {}},
        "host": {"name": "vm"},
    }
    return main.Agent(config.from_dict(tables))


async def test_what_tells_an_end_stays_while_the_database_may_know_its_run(host: Host) -> None:
    agent = agent_of(host)
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
    host: Host, starter: Starter
) -> None:
    job = host.submit()
    after = await host.followed(starter)
    host.give_up()
    assert host.job_of(job)["jobstatus"] == 1
    updates = updates_of(after)
    await updates.tell_ends()
    assert ended(host.job_of(job)) == (4, False, 3, None)
    # the log is not read any more, though this agent never had the run
    await until(lambda: not starter.log.exists())
    # once
    await updates.tell_ends()
    assert outcomes(host) == ["completed"]


async def test_agent_tells_the_ends_of_the_agent_before(host: Host, starter: Starter) -> None:
    job = host.submit()
    await host.followed(starter)
    host.give_up()
    agent = agent_of(host)
    work = asyncio.gather(*agent._periodic_work())
    try:
        await until(lambda: host.job_of(job)["jobstatus"] == 4)
        assert ended(host.job_of(job)) == (4, False, 3, None)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await agent.runs.close()
        for session in agent.sessions:
            await session.close()


async def test_what_tells_no_end_goes_once_the_run_is_known_to_be_over(host: Host, starter: Starter) -> None:
    host.submit()
    after = await host.followed(starter, BEGUN)
    updates = updates_of(after)
    await updates.tell_ends()
    # the database may still have the run
    assert starter.log.exists()
    host.give_up()
    await after.runs.take_over(after.context, PATIENCE_S)
    await updates.tell_ends()
    await until(lambda: not starter.log.exists())


@pytest.mark.parametrize("written", ["", BEGUN[:3]], ids=["nothing", "a part"])
async def test_job_that_ran_is_not_told_to_have_never_begun_for_a_full_disk(
    host: Host, starter: Starter, written: str
) -> None:
    host.submit()
    after = host.another()
    updates_of(host)
    ad = await host.begun(starter)
    await host.update(ad, JobState="Running", JobPid=4242)
    await host.runs.close()
    starter.end(written)
    updates = updates_of(after)
    # before it has read the runs that the database lists
    await updates.tell_ends()
    assert outcomes(host) == []
    await after.runs.take_over(after.context, PATIENCE_S)
    await updates.tell_ends()
    await until(lambda: outcomes(host) != [])
    assert outcomes(host) == ["lost"]


async def test_end_in_an_outage_is_spooled_as_it_was_judged(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = host.submit()
    await host.begun(starter)
    (run,) = host.runs
    assert run.become("killed", "no answer of the database for a lease")
    host.down = True

    monkeypatch.setattr(host.context.session.reports, "finish", away)
    starter.end(BEGUN + KILLED)
    await until(lambda: bool(host.spooled))
    assert host.spooled[0].arg == "evict"
    assert host.job_of(job)["jobstatus"] == 2 and len(host.runs) == 1
    monkeypatch.undo()
    host.down = False
    await until(lambda: host.job_of(job)["jobstatus"] == 1)
    await until(lambda: len(host.runs) == 0)


async def test_end_that_can_neither_be_delivered_nor_spooled_counts_after_the_outage(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = host.submit()
    await host.begun(starter)
    host.down, host.refused = True, 0

    monkeypatch.setattr(host.context.session.reports, "finish", away)
    starter.end(BEGUN + EXITED)
    await until(lambda: (host.refused or 0) > 1)
    assert host.job_of(job)["jobstatus"] == 2 and starter.log.exists()
    monkeypatch.undo()
    host.down = False
    await until(lambda: host.job_of(job)["jobstatus"] == 4)
    assert ended(host.job_of(job)) == (4, False, 3, None)
    await until(lambda: len(host.runs) == 0)
    assert outcomes(host) == ["completed"]


async def test_end_of_a_run_before_this_agent_is_told_until_it_is_kept(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = host.submit()
    after = await host.followed(starter)
    updates = updates_of(after)
    after.refused = 0

    monkeypatch.setattr(after.context.session.reports, "finish", away)
    await updates.tell_ends()
    await updates.tell_ends()
    assert after.refused > 1
    monkeypatch.undo()
    await updates.tell_ends()
    assert ended(host.job_of(job)) == (4, False, 3, None)
    await updates.tell_ends()
    assert outcomes(host) == ["completed"]


async def test_end_that_waits_for_its_database_delays_no_update(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = host.submit(), host.submit()
    after = await host.followed(starter)
    goes_on, asked, tell = asyncio.Event(), asyncio.Event(), after.runs.tell_end

    async def slow(run: LiveRun, identity: Process) -> Answer | None:
        asked.set()
        await goes_on.wait()
        return await tell(run, identity)

    monkeypatch.setattr(after.runs, "tell_end", slow)
    updates = updates_of(after)
    telling = asyncio.create_task(updates.tell_ends())
    other = Starter()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
            await after.begun(other, slot_ad(FetchWorkPlain=True, Name="slot2@vm"))
            await updates.round()
        assert [run.job for run in updates._due] == [second]
        assert host.job_of(first)["jobstatus"] == 2
        goes_on.set()
        await telling
        assert ended(host.job_of(first)) == (4, False, 3, None)
    finally:
        other.end()
        telling.cancel()


async def test_end_that_is_kept_nowhere_is_known_to_the_agent_after_the_next(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = host.submit()
    between = await host.followed(starter)
    host.give_up()
    between.refused = 0

    monkeypatch.setattr(between.context.session.reports, "finish", away)
    updates = updates_of(between)
    await updates.tell_ends()
    await updates.round()
    assert between.refused == 1
    await updates_of(host.another()).tell_ends()
    assert ended(host.job_of(job)) == (4, False, 3, None)


async def test_policy_of_a_job_that_ended_while_no_agent_lived_decides_about_it(
    host: Host, starter: Starter
) -> None:
    job = host.submit(ad={"OnExitHold": "/Expr(ExitCode == 3)/"})
    after = await host.followed(starter)
    # before it has read the runs that it takes over
    await updates_of(after).tell_ends()
    assert host.job_of(job)["jobstatus"] == 5


async def test_hook_that_reports_all_the_same_counts_once(host: Host, starter: Starter) -> None:
    job = host.submit()
    ad = await host.begun(starter)
    starter.log.write_text(BEGUN + EXITED)
    assert (await host.exit(ad, starter=starter.identity, ExitCode=0, JobPid=17)).outcome == "completed"
    starter.end()
    await until(lambda: not starter.log.exists())
    assert ended(host.job_of(job)) == (4, False, 0, None)
    assert outcomes(host) == ["completed"]


async def test_job_whose_start_was_not_confirmed_waits_again_without_blame(
    host: Host, starter: Starter
) -> None:
    job = host.submit()
    ad = await host.fetch(SLOT)
    await host.reply("accept", ad, SLOT)
    original = host.context.session.reports.start

    host.context.session.reports.start = away
    assert (await host.start(ad, starter=starter.identity)).reply.code == "unavailable"
    host.context.session.reports.start = original
    starter.end()
    await until(lambda: outcomes(host) == ["withdrawn"])
    assert host.job_of(job)["jobstatus"] == 1


async def test_start_that_was_not_confirmed_is_withdrawn_after_the_outage(
    host: Host, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = host.submit()
    ad = await host.fetch(SLOT)
    await host.reply("accept", ad, SLOT)

    host.down = True
    monkeypatch.setattr(host.context.session.reports, "start", away)
    assert (await host.start(ad, starter=starter.identity)).reply.code == "unavailable"
    monkeypatch.setattr(host.context.session.database, "run", away)
    starter.end()
    await until(lambda: bool(host.spooled))
    monkeypatch.undo()
    host.down = False
    await host.deliver()
    assert outcomes(host) == ["withdrawn"]
    assert host.job_of(job)["jobstatus"] == 1


async def test_start_that_was_refused_leaves_the_other_starters_run_alone(
    host: Host, starter: Starter
) -> None:
    job = host.submit()
    ad = await host.begun(starter)
    second = Starter()
    try:
        assert (await host.start(ad, starter=second.identity)).outcome == "refused"
    finally:
        second.end()
    assert host.job_of(job)["jobstatus"] == 2
    starter.end(BEGUN + EXITED)
    await until(lambda: host.job_of(job)["jobstatus"] == 4)


async def test_starter_that_names_another_ones_slot_ends_nothing_there(host: Host, starter: Starter) -> None:
    victim = host.submit()
    await host.begun(starter)
    other = host.submit()
    rogue = Starter()
    try:
        # the hook runs as the job's user, who may name any slot
        await host.begun(rogue, slot_ad(FetchWorkPlain=True, Name="slot2@vm"))
        assert len(host.runs) == 2
    finally:
        rogue.end(BEGUN + EXITED)
    await until(lambda: host.job_of(other)["jobstatus"] == 4)
    assert host.job_of(victim)["jobstatus"] == 2
    # the database learns of the end before the agent does
    await until(lambda: len(host.runs) == 1)
    (run,) = host.runs
    assert list(host.runs.alive(host.context.session)) == [run.run_id]


async def test_words_of_a_job_that_outlives_its_starter_are_not_believed(
    host: Host, starter: Starter
) -> None:
    job = host.submit()
    ad = await host.begun(starter)
    (run,) = host.runs
    orphan = Starter()
    run.job_process = orphan.identity
    assert attributes_of(ad)["FetchWorkRunId"] == run.run_id
    starter.end(BEGUN + EXITED)
    # the job is ended, and only then offered again
    await until(lambda: host.job_of(job)["jobstatus"] == 1)
    assert orphan.process.wait() != 0
    assert outcomes(host) == ["lost"]


async def test_removed_job_is_removed(host: Host, starter: Starter) -> None:
    job = host.submit()
    await host.begun(starter)
    host.database.query("SELECT fetchwork.remove(ARRAY[%s])", [job])
    starter.end(BEGUN + KILLED)
    await until(lambda: outcomes(host) == ["removed"])
    assert host.job_of(job)["jobstatus"] == 3


@pytest.mark.parametrize(
    ("slot", "ad"),
    [(slot_ad(), {}), (SLOT, {"FetchWorkTailBytes": 100}), (SLOT, {"DeferralTime": 5})],
    ids=["slot without the keyword", "job with a tail", "job with a time"],
)
async def test_job_that_needs_job_exit_has_its_keyword(
    host: Host, slot: bytes, ad: dict[str, object]
) -> None:
    host.submit(ad=ad)
    assert attributes_of(await host.fetch(slot))["HookKeyword"] == "FW"


def outcomes(host: Host) -> list[str]:
    rows = host.database.query("SELECT outcome::text FROM fetchwork.run_history ORDER BY run_id")
    return [row["outcome"] for row in rows]
