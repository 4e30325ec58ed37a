"""PREPARE_JOB runs as the job's user, who may name any slot: jobs on that slot are not touched."""

import subprocess
from collections.abc import Iterator

import pytest

from fetchwork.process import Process
from tests.agent.conftest import WatchingHooks, process_of, slot_ad
from tests.support.waiting import until_async as until


@pytest.fixture
def starters() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("running", [False, True], ids=["at its start", "while it runs"])
async def test_starter_that_names_another_ones_slot_ends_nothing_there(
    agent: WatchingHooks, starters: list[subprocess.Popen[bytes]], running: bool
) -> None:
    victims, rogues = (process_of(process) for process in starters)
    ads = []
    for slot in ("slot1@vm", "slot2@vm"):
        agent.submit()
        ads.append(await agent.fetch(slot_ad(Name=slot)))
        await agent.reply("accept", ads[-1], slot_ad(Name=slot))
    mine, theirs = ads

    async def start(ad: bytes, slot: str, starter: Process) -> str:
        return (await agent.ask("prepare_job", ad, slot=slot, starter=starter)).outcome

    assert await start(mine, "slot1", victims) == "started"
    if running:
        assert await start(theirs, "slot2", rogues) == "started"
    assert await start(theirs, "slot1", rogues) == "started"
    # a run that was given up would be ended by now, or a little later
    starters[1].kill()
    await until(lambda: agent.job_of("2.0")["jobstatus"] == 1)
    assert agent.job_of("1.0")["jobstatus"] == 2
    runs = agent.runs
    assert list(runs.alive(agent.context.session)) == [1]
