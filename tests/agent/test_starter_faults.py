"""A start that failed by the starter's log holds the job, no matter how the end of its run is noticed."""

import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.runs import watch
from fetchwork.handlers.host.starterlog import StarterLogs
from fetchwork.process import Process
from tests.agent.conftest import Hooks, Jobs, WatchingHooks, attributes_of, process_of
from tests.support.starter_logs import NO_PROGRAM, WRITTEN
from tests.support.there import there
from tests.support.waiting import until_async as until


@pytest.fixture
async def hooks(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WatchingHooks]:
    """A host's hooks with two parts of an agent: starters' files, and a watch on starters."""
    monkeypatch.setattr(watch, "START_GRACE_S", 0.0)
    hooks = WatchingHooks(conninfo, starter_logs=StarterLogs(tmp_path / "starter", of_users=False))
    yield hooks
    await hooks.close()


def starter_log(job: bytes) -> Path:
    return Path(str(attributes_of(job)["StarterUserLog"]))


def held(row: dict[str, Any]) -> tuple[object, ...]:
    return row["jobstatus"], row["holdreasoncode"], row["holdreasonsubcode"], row["holdreason"]


HELD = (5, 6, 2, NO_PROGRAM.reason("slot1@vm"))


async def test_job_exit_of_a_job_that_never_ran_holds_it(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    path = starter_log(ad)
    path.write_text(WRITTEN)
    assert (await hooks.exit(ad, "evict")).outcome == "could_not_start"
    row = hooks.job_of(job)
    assert held(row)[:3] == HELD[:3]
    assert row["holdreason"].endswith(NO_PROGRAM.text)
    await until(lambda: not path.exists())
    # JOB_EXIT is repeated after a lost answer
    assert (await hooks.exit(ad, "evict")).outcome == "late"
    assert held(hooks.job_of(job)) == held(row)


async def test_accepted_job_of_which_no_hook_reports_is_held(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    ad = await hooks.fetch()
    await hooks.reply("accept", ad)
    starter_log(ad).write_text(WRITTEN)
    hooks.runs.look()
    await until(lambda: hooks.job_of(job)["jobstatus"] == 5)
    assert held(hooks.job_of(job))[:3] == HELD[:3]
    await until(lambda: len(hooks.runs) == 0)


async def test_slot_that_asks_again_shows_the_fault_of_the_job_before(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    ad = await hooks.fetch()
    await hooks.reply("accept", ad)
    starter_log(ad).write_text(WRITTEN)
    assert not await hooks.fetch()
    assert held(hooks.job_of(job))[:3] == HELD[:3]


async def test_slot_that_asks_before_the_starter_is_missed_shows_the_fault_too(hooks: WatchingHooks) -> None:
    # as with a broken image: HTCondor's starter ends after PREPARE_JOB, and calls no hook
    job = hooks.submit()
    ad = await hooks.started_job()
    text = "Singularity test failed:FATAL: could not open image x.sif"
    starter_log(ad).write_text(WRITTEN.replace(NO_PROGRAM.text, text))
    assert not await hooks.fetch()
    row = hooks.job_of(job)
    assert held(row)[:3] == (5, 45, -1000)
    assert row["holdreason"].endswith(text)


async def test_end_of_a_starter_without_job_exit_shows_the_fault(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    with subprocess.Popen(["sleep", "1000"]) as starter:
        process = Process.find(starter.pid)
        assert process is not None
        ad = await hooks.fetch()
        await hooks.reply("accept", ad)
        assert (await hooks.start(ad, starter=process)).outcome == "started"
        starter_log(ad).write_text(WRITTEN)
        starter.kill()
    await until(lambda: hooks.job_of(job)["jobstatus"] == 5)
    assert held(hooks.job_of(job))[:3] == HELD[:3]


async def test_run_that_becomes_known_after_its_starters_end_is_given_up(hooks: WatchingHooks) -> None:
    # the answer that brings a chain's next run gets lost, and the starter ends with its runner
    job = hooks.submit()
    session = hooks.context.session
    with subprocess.Popen(["sleep", "1000"]) as starter:
        process = process_of(starter)
        await hooks.begin(process)
        (run,) = hooks.runs
        hooks.runs.ended(session, run.run_id)
        starter.kill()
    await until(there(hooks.runs._starters.on_slot(session, run.slot)).gone.is_set)
    await hooks.runs.take_over(hooks.context, 5.0)
    await until(lambda: hooks.job_of(job)["jobstatus"] == 1)
    assert hooks.job_of(job)["lastreason"] == "the starter ended without a report"


async def test_fault_that_htcondor_tries_again_is_the_reason_of_the_next_try(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    starter_log(ad).write_text(WRITTEN.replace(NO_PROGRAM.text, "the starter has had enough"))
    await hooks.exit(ad, "evict")
    assert hooks.job_of(job)["jobstatus"] == 1
    assert hooks.job_of(job)["lastreason"].endswith(": the starter has had enough")


async def test_a_try_that_fails_before_its_accept_is_written_is_counted(hooks: WatchingHooks) -> None:
    # as when a site's own PREPARE_JOB is killed: the slot asks again within a tenth of a second
    hooks.context.session.agent_id = str(uuid.uuid4())
    job = hooks.submit()
    ad = await hooks.fetch()
    await hooks.reply("accept", ad)
    starter_log(ad).write_text(WRITTEN.replace(NO_PROGRAM.text, "the starter has had enough"))
    await hooks.fetch()
    assert hooks.job_of(job)["lastreason"].endswith(": the starter has had enough")


async def test_what_a_job_that_ran_wrote_there_says_nothing(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    starter_log(ad).write_text(WRITTEN)
    assert (await hooks.exit(ad, ExitCode=0, JobPid=17)).outcome == "completed"
    assert hooks.job_of(job)["jobstatus"] == 4


async def test_removed_job_is_not_held_for_its_starters_words(hooks: WatchingHooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    starter_log(ad).write_text(WRITTEN)
    hooks.database.query("SELECT fetchwork.remove(ARRAY[%s])", [job])
    await hooks.exit(ad, "evict")
    assert hooks.job_of(job)["jobstatus"] == 3


async def test_job_is_offered_where_no_file_can_be_made(conninfo: str, jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    hooks = Hooks(conninfo, starter_logs=StarterLogs(tmp_path / "file", of_users=False))
    job = jobs.submit()
    ad = await hooks.started_job()
    assert "StarterUserLog" not in attributes_of(ad)
    await hooks.exit(ad, "evict")
    assert jobs.job_of(job)["jobstatus"] == 1
    await hooks.close()
