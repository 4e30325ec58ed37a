"""A busy slot that asks before its starter has reported, soon after the end of the previous job."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from fetchwork.agent.runs import watch
from fetchwork.agent.runs.watch import WatchedRuns
from tests.agent.conftest import Child, Hooks, process_of, slot_ad
from tests.support.waiting import PATIENCE_S

BUSY = slot_ad("25.14.1-fetch_work-static-claimed-busy", Name="slot1@vm")


async def nothing_spooled() -> None:
    pass


def nobody_waits(session: object, slot: str) -> None:
    pass


@pytest.fixture
def starters() -> Iterator[Callable[[], Child]]:
    """Makes processes that play starters."""
    made = []

    def make() -> Child:
        made.append(subprocess.Popen(["sleep", "1000"]))
        return made[-1]

    yield make
    for process in made:
        process.kill()
        process.wait()


@pytest.fixture
async def hooks(conninfo: str) -> AsyncIterator[Hooks]:
    hooks = Hooks(conninfo, runs=WatchedRuns(nothing_spooled, nobody_waits), max_fetch_wait_s=600.0)
    yield hooks
    await hooks.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent waits for the starter, no matter how slowly it starts here."""
    monkeypatch.setattr(watch, "START_GRACE_S", PATIENCE_S)


async def begin(hooks: Hooks, starter: Child) -> bytes:
    """A job that was fetched, accepted and started."""
    job = await hooks.fetch(slot_ad())
    await hooks.reply("accept", job)
    answer = await hooks.start(job, starter=process_of(starter))
    assert answer.outcome == "started"
    return job


async def end(hooks: Hooks, job: bytes, starter: Child) -> None:
    exited: dict[str, Any] = {"ExitCode": 0, "ExitBySignal": False, "JobPid": 1, "JobState": "Exited"}
    answer = await hooks.exit(job, starter=process_of(starter), **exited)
    assert answer.outcome == "completed"
    starter.kill()
    starter.wait()
    await asyncio.sleep(0.1)


async def test_end_of_the_starter_before_does_not_end_the_run(
    hooks: Hooks, starters: Callable[[], Child]
) -> None:
    first, second, third = hooks.submit(), hooks.submit(), hooks.submit()
    starter = starters()
    await end(hooks, await begin(hooks, starter), starter)
    assert hooks.job_of(first)["jobstatus"] == 4

    job = await hooks.fetch(slot_ad())
    await hooks.reply("accept", job)
    early = asyncio.create_task(hooks.fetch(BUSY))
    await asyncio.sleep(0.2)
    starter = starters()
    answer = await hooks.start(job, starter=process_of(starter))
    assert answer.outcome == "started"
    await asyncio.sleep(0.2)
    assert not early.done()
    assert hooks.job_of(second)["jobstatus"] == 2

    # once that job has ended, the fetch counts as the slot's request for its next job
    await end(hooks, job, starter)
    assert await asyncio.wait_for(early, PATIENCE_S)
    assert hooks.job_of(second)["jobstatus"] == 4
    assert hooks.job_of(third)["numlost"] == 0


async def test_starter_that_takes_long_to_come_up_finds_its_run(
    hooks: Hooks, starters: Callable[[], Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "START_GRACE_S", 0.3)
    hooks.submit(), hooks.submit()
    starter = starters()
    await end(hooks, await begin(hooks, starter), starter)
    job = await hooks.fetch(slot_ad())
    await hooks.reply("accept", job)
    assert await asyncio.wait_for(hooks.fetch(BUSY), PATIENCE_S) == b""
    answer = await hooks.start(job, starter=process_of(starters()))
    assert answer.outcome == "started"


DIVIDED = slot_ad("25.14.1-fetch_work-pslot-unclaimed", Name="slot1@vm")
DYNAMIC_BUSY = slot_ad(
    "25.14.1-fetch_work-static-claimed-busy", Name="slot1_1@vm", SlotType="Dynamic", DynamicSlot=True
)


@pytest.mark.parametrize("fetched_by", ["slot1@vm", "slot1_2@vm"])
async def test_dynamic_slot_of_the_same_name_runs_what_another_slot_has_fetched(
    hooks: Hooks, starters: Callable[[], Child], fetched_by: str
) -> None:
    first, second, third = hooks.submit(), hooks.submit(), hooks.submit()
    starter = starters()
    job = await hooks.fetch(DIVIDED)
    await hooks.reply("accept", job, DIVIDED)
    await hooks.ask("prepare_job", job, slot="slot1_1", starter=process_of(starter))
    await end(hooks, job, starter)
    assert hooks.job_of(first)["jobstatus"] == 4

    # the dynamic slot is made anew, for a job that the partitionable or another dynamic slot fetched
    other = DIVIDED if fetched_by == "slot1@vm" else slot_ad(Name=fetched_by, SlotType="Dynamic")
    job = await hooks.fetch(other)
    await hooks.reply("accept", job, other)
    early = asyncio.create_task(hooks.fetch(DYNAMIC_BUSY))
    await asyncio.sleep(0.2)
    assert not early.done(), "it was offered a job while it ran another"
    starter = starters()
    answer = await hooks.ask("prepare_job", job, slot="slot1_1", starter=process_of(starter))
    assert (answer.outcome, answer.slot) == ("started", "slot1_1@vm")
    await asyncio.sleep(0.2)
    assert not early.done()
    await end(hooks, job, starter)
    assert await asyncio.wait_for(early, PATIENCE_S)
    assert hooks.job_of(second)["jobstatus"] == 4
    assert hooks.job_of(third)["jobstatus"] == 1
