"""Three ways to detect a run that died silently, and the time that its job stays Running."""

from dataclasses import replace

import pytest

from fetchwork.simulate.behaviour import NEVER
from tests.faults.harness import TIMING, Pool

LEASE_S = 6


async def test_agent_sees_a_killed_starter(pool: Pool) -> None:
    # the slots never ask again: only the starter's process shows the death
    pool.timing = replace(TIMING, claimed_idle_delay_s=NEVER)
    host = await pool.add_host(slots=1, family=True)
    pool.submit([1000.0])
    await pool.until_running()
    await pool.until(lambda: pool.state() == 2)
    asked = pool.ledger.counts["fetch_work"]
    host.host.slots[0].kill_starter()
    await pool.until(lambda: pool.state() != 2)
    assert pool.ledger.counts["fetch_work"] == asked
    assert pool.violations() == []


async def test_slot_that_asks_again_ends_its_run(pool: Pool) -> None:
    # no processes are visible: only the slot's next fetch shows the death
    host = await pool.add_host(slots=1)
    pool.submit([1000.0])
    await pool.until_running()
    await pool.until(lambda: pool.state() == 2)
    began = pool.ledger.counts["fetch_work"]
    host.host.slots[0].kill_starter()
    await pool.until(
        lambda: pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome = 'lost'") == 1
    )
    assert pool.ledger.counts["fetch_work"] > began
    assert pool.value("SELECT reason FROM fetchwork.run_history") == "slot slot1@sim1 asked for new work"


async def test_silent_host_is_found_when_its_lease_is_over(pool: Pool) -> None:
    pool.agent = {"lease_s": LEASE_S}
    gone = await pool.add_host("gone", slots=2)
    pool.submit([1000.0, 1000.0])
    await pool.until_running(2)
    await pool.until(lambda: pool.value("SELECT count(*) FROM fetchwork.job WHERE job_status = 2") == 2)
    await pool.add_host("other", slots=1)
    await gone.lose_power()
    lease_until = pool.value("SELECT lease_until FROM fetchwork.host WHERE name = 'gone'")
    await pool.until(
        lambda: pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome = 'lost'") == 2
    )
    assert pool.value("SELECT min(ended_at) FROM fetchwork.run_history") >= lease_until
    assert pool.violations() == []


@pytest.mark.parametrize("version", ["23.9", pytest.param("25.14", marks=pytest.mark.all)])
async def test_startd_that_comes_back_frees_its_slots(pool: Pool, version: str) -> None:
    host = await pool.add_host(slots=3, version=version)
    pool.submit([1000.0] * 3)
    await pool.until_running(3)
    await host.host.crash_startd(restart_s=0.2)
    await pool.until_running(3)
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome = 'lost'") == 3
    assert pool.overlaps() == []
    assert pool.violations() == []


async def test_offer_that_nobody_took_waits_again(pool: Pool) -> None:
    assert TIMING.unclaimed_delay_s <= 1.0
    host = await pool.add_host(slots=1)
    pool.submit([0.1], SimulatedFailure="silence")
    # accepted, then silence: three times, then Held with a reason that says so
    await pool.until(lambda: pool.state() == 5)
    reason = pool.value("SELECT hold_reason FROM fetchwork.job")
    assert "could not start 3 times" in reason
    assert host.host.ledger.executions == []
