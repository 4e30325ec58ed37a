"""HTCondor may spawn a slot's next fetch between its accepting a job and the job's starter.

The fetch's ad says Claimed/Idle then, as that of a slot whose job has ended.
"""

import asyncio
import subprocess

import pytest

from fetchwork.agent import peer, watch
from fetchwork.agent.watch import WatchedRuns
from tests.agent.conftest import Hooks, slot_ad

CLAIMED_IDLE = "25.14.1-fetch_work-static-claimed-idle"


async def nothing_spooled() -> None:
    pass


@pytest.fixture
def starter():
    """A process that plays the starter."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
async def hooks(conninfo):
    hooks = Hooks(conninfo, runs=WatchedRuns(nothing_spooled))
    yield hooks
    await hooks.site.store.database.close()


async def test_run_whose_starter_lives_is_not_over(hooks, submit, job_of, starter):
    submit()
    another = submit()
    job = await hooks.fetch(slot_ad())
    await hooks.reply("accept", job)
    answer = await hooks.start(job, starter=peer.identity(starter.pid))
    assert answer.fields["outcome"] == "started"
    name = slot_ad(CLAIMED_IDLE, Name="slot1@vm")
    assert await hooks.fetch(name) == b""
    assert job_of("1.0")["jobstatus"] == 2
    assert job_of(another)["jobstatus"] == 1


async def test_starter_that_comes_up_is_waited_for(hooks, submit, job_of, starter):
    submit()
    job = await hooks.fetch(slot_ad())
    await hooks.reply("accept", job)
    lagging = asyncio.create_task(hooks.fetch(slot_ad(CLAIMED_IDLE, Name="slot1@vm")))
    await asyncio.sleep(0.2)
    answer = await hooks.start(job, starter=peer.identity(starter.pid))
    assert answer.fields["outcome"] == "started"
    assert await lagging == b""
    assert job_of("1.0")["jobstatus"] == 2


async def test_job_that_no_starter_came_for_is_given_up(hooks, submit, job_of, monkeypatch):
    monkeypatch.setattr(watch, "START_GRACE_S", 0.3)
    submit()
    job = await hooks.fetch(slot_ad())
    await hooks.reply("accept", job)
    await hooks.fetch(slot_ad(CLAIMED_IDLE, Name="slot1@vm"))
    assert job_of("1.0")["numnotstarted"] == 1
