"""One call for many slots: the agent dies between its send and its answer, or the answer is lost."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from tests.faults.harness import Pool, SimulatedHost
from tests.faults.proxy import Trap
from tests.support.waiting import PATIENCE_S

SLOTS = 12
#: no offer expires within a test's time, nor does the agent look for unknown runs by itself
LONG_OFFERS = """
from fetchwork.agent import lease
from fetchwork.handlers.requests import offer
offer.OFFER_S = lease.RUNS_S = 10000.0
lease.UNHEARD_S = 1.0
"""


async def _waiting(host: SimulatedHost, number: int) -> None:
    """Wait until this many of the host's fetches wait."""
    async with asyncio.timeout(PATIENCE_S):
        while (await host.agent.status())["waiting_fetches"] < number:
            await asyncio.sleep(0.05)


def _set_trap(host: SimulatedHost, function: str, look: Callable[[Trap], Awaitable[None]]) -> None:
    """Let ``look`` decide after the next call whether its answer gets lost."""

    async def action() -> None:
        await look(trap)

    trap = host.proxy.trap(function, "after", action, cuts=False)


async def _claimed_unheard(pool: Pool, host: SimulatedHost, then: Callable[[], Awaitable[None]]) -> int:
    """Let a claim for several slots commit and its answer be lost; ``then`` runs before the agent knows.

    Return the number of runs that the claim made.
    """
    made: list[int] = []
    sprung = asyncio.Event()

    async def look(trap: Trap) -> None:
        count = pool.value("SELECT count(*) FROM fetchwork.run WHERE state = 'reserved'")
        if count < 2:
            # a slot that matched alone hears its answer
            _set_trap(host, "claim_many", look)
            return
        made.append(count)
        await then()
        trap.cuts = True
        sprung.set()

    await _waiting(host, SLOTS // 2)
    _set_trap(host, "claim_many", look)
    pool.submit([0.2] * SLOTS)
    await asyncio.wait_for(sprung.wait(), PATIENCE_S)
    return made[0]


async def _all_ran_once(pool: Pool, *, starts: int = 1, jobs: int = SLOTS) -> None:
    """Wait until all have run; ``starts`` is how often the queue may have let a job start."""
    await pool.until_done()
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.faults() == []
    assert pool.overlaps() == []
    ended = f"SELECT count(*) FROM fetchwork.job_history WHERE job_status = 4 AND num_starts <= {starts}"
    assert pool.value(ended) == jobs


async def test_jobs_of_a_claim_whose_agent_died_are_another_hosts(pool: Pool) -> None:
    host = await pool.add_host("dying", slots=SLOTS)

    async def kill() -> None:
        host.agent.signal(signal.SIGKILL)

    assert await _claimed_unheard(pool, host, kill) >= 2
    # no report says that the offers were lost: their time, or the agent's lease, ends
    await pool.add_host("other", slots=SLOTS)
    await pool.until_done()
    # a job that was claimed alone before had its end told to the spool alone, and ran again
    await host.agent.start()
    await _all_ran_once(pool, starts=2)


async def test_jobs_of_a_claim_whose_answer_was_lost_are_offered_again(pool: Pool) -> None:
    host = await pool.add_host("deaf", slots=SLOTS, prelude=LONG_OFFERS)

    async def nothing() -> None:
        """Break the connection, and do nothing else."""

    assert await _claimed_unheard(pool, host, nothing) >= 2
    await _all_ran_once(pool)


#: the number of runs that the last transaction has begun, or ended
LAST_CALL = {
    "start": "SELECT count(*) FROM fetchwork.run WHERE state = 'running' GROUP BY xmin"
    " ORDER BY max(started_at) DESC LIMIT 1",
    "exit": "SELECT count(*) FROM fetchwork.run_history GROUP BY xmin ORDER BY max(ended_at) DESC LIMIT 1",
}


@pytest.mark.parametrize(
    ("report", "killed"),
    [
        ("start", True),
        ("exit", False),
        *(pytest.param(*case, marks=pytest.mark.all) for case in (("start", False), ("exit", True))),
    ],
)
async def test_runs_whose_reports_went_together_and_unheard_run_once(
    pool: Pool, report: str, killed: bool
) -> None:
    host = await pool.add_host("unheard", slots=SLOTS)
    sprung = asyncio.Event()

    async def look(trap: Trap) -> None:
        if pool.value(LAST_CALL[report]) < 2:
            # a report that was sent alone is answered
            _set_trap(host, f"report_runs/{report}", look)
            return
        if killed:
            host.agent.signal(signal.SIGKILL)
        trap.cuts = True
        sprung.set()

    await _waiting(host, SLOTS // 2)
    _set_trap(host, f"report_runs/{report}", look)
    jobs = 0
    delay_s = 0.05
    while not sprung.is_set():
        # reports that arrive during a call share the next call; on a busy machine they come further apart, so
        # each round's calls take longer
        await host.proxy.set_mode("slow", delay_s)
        delay_s *= 2
        jobs += SLOTS
        pool.submit([0.2] * SLOTS)
        await pool.until(lambda: sprung.is_set() or not pool.value("SELECT count(*) FROM fetchwork.job"))
    await host.proxy.set_mode("open")
    if killed:
        await host.agent.start()
    # a hook that got no answer to its start did not let the job run
    await _all_ran_once(pool, starts=2 if killed and report == "start" else 1, jobs=jobs)


async def test_agent_that_is_killed_with_many_waiting_serves_them_when_it_is_back(
    pool: Pool,
) -> None:
    host = await pool.add_host("restarted", slots=SLOTS)
    await _waiting(host, SLOTS // 2)
    host.agent.signal(signal.SIGKILL)
    pool.submit([0.2] * SLOTS)
    await host.agent.start()
    await _all_ran_once(pool)
