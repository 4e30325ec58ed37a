"""Dynamic slots of HTCondor 25: a job that one slot fetched may run in another while the first asks again."""

from collections.abc import AsyncIterator

import pytest

from fetchwork.agent.runs.watch import WatchedRuns
from tests.agent.conftest import Hooks, attributes_of, slot_ad

FIRST = slot_ad(Name="slot1_1@vm", SlotType="Dynamic", State="Claimed", Activity="Idle", HookKeyword="FW")


async def nothing() -> None:
    """An empty spool."""


@pytest.fixture(params=["watched", "unwatched"])
async def hooks(conninfo: str, request: pytest.FixtureRequest) -> AsyncIterator[Hooks]:
    """The hooks of an agent that watches its runs, and of an agent that knows none of them."""
    watched = WatchedRuns(nothing, lambda session, slot: None)
    hooks = Hooks(conninfo, runs=watched if request.param == "watched" else None)
    yield hooks
    await watched.close()
    await hooks.close()


@pytest.mark.parametrize("answered", [True, False])
async def test_run_moves_to_the_slot_that_starts_it(hooks: Hooks, answered: bool) -> None:
    hooks.submit()
    hooks.submit()
    job = await hooks.fetch(FIRST)
    if answered:
        await hooks.reply("accept", job, FIRST)
    # 20 ms later: the startd has carved another slot for the job
    second = await hooks.fetch(FIRST)
    assert attributes_of(second)["ClusterId"] == 2
    answer = await hooks.ask("prepare_job", job, slot="slot1_2")
    assert (answer.outcome, answer.slot) == ("started", "slot1_2@vm")
    assert (await hooks.exit(job, ExitCode=0, ExitBySignal=False, JobPid=9)).outcome == "completed"
    assert hooks.job_of("1.0")["numjobstarts"] == 1
    assert hooks.database.query("SELECT slot, outcome::text FROM fetchwork.run_history") == [
        {"slot": "slot1_2@vm", "outcome": "completed"}
    ]
    assert hooks.database.query("SELECT bad_starts FROM fetchwork.host") == [{"bad_starts": 0}]


async def test_job_that_no_starter_began_in_seconds_is_a_failed_start(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.agent.runs.watch.DYNAMIC_GRACE_S", 0.0)
    hooks.submit()
    await hooks.reply("accept", await hooks.fetch(FIRST), FIRST)
    hooks.database.query("UPDATE fetchwork.run SET accepted_at = now() - interval '11 s'")
    assert await hooks.fetch(FIRST) == b""
    assert hooks.job_of("1.0")["jobstatus"] == 1
    outcomes = hooks.database.query("SELECT outcome::text, reason FROM fetchwork.run_history")
    assert [row["outcome"] for row in outcomes] == ["could_not_start"]
    assert "see StarterLog" in outcomes[0]["reason"]
