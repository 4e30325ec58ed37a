"""One claim for many slots: the agent dies between its send and its answer, or the answer is lost."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from tests.faults.harness import SimulatedHost, Site
from tests.waiting import PATIENCE_S

SLOTS = 12
#: an offer that nobody heard of runs out within a test's time
SHORT_OFFERS = """
from fetchwork.agent import leader
from fetchwork.handlers import maintenance, offer
offer.OFFER_S = 5.0
leader.LEAD_S = 0.0
leader.SHORTEST_ASK_S = leader.LONGEST_ASK_S = 0.3
maintenance.MAINTAIN_QUEUE_S = 0.3
"""


async def _waiting(host: SimulatedHost, number: int) -> None:
    """Wait until so many of the host's fetches wait."""
    async with asyncio.timeout(PATIENCE_S):
        while (await host.agent.status())["waiting_fetches"] < number:
            await asyncio.sleep(0.05)


async def _claimed_unheard(site: Site, host: SimulatedHost, then: Callable[[], Awaitable[None]]) -> int:
    """Let a claim for several slots commit, and its answer be lost; ``then`` is done before the agent knows.

    Returns how many runs that claim made.
    """
    made: list[int] = []
    sprung = asyncio.Event()

    async def look() -> None:
        count = site.value("SELECT count(*) FROM fetchwork.run WHERE state = 'reserved'")
        if count < 2:
            # a slot that looked alone
            host.proxy.trap("claim_many", "after", look)
            return
        made.append(count)
        await then()
        sprung.set()

    await _waiting(host, SLOTS // 2)
    host.proxy.trap("claim_many", "after", look)
    site.submit([0.2] * SLOTS)
    await asyncio.wait_for(sprung.wait(), PATIENCE_S)
    return made[0]


async def _all_ran_once(site: Site) -> None:
    await site.until_done()
    await site.until(lambda: not site.left_in_spool())
    assert site.faults() == []
    assert site.overlaps() == []
    once = "SELECT count(*) FROM fetchwork.job_history WHERE job_status = 4 AND num_starts = 1"
    assert site.value(once) == SLOTS


async def test_jobs_of_a_claim_whose_agent_died_are_another_hosts(site: Site) -> None:
    host = await site.add_host("dying", slots=SLOTS)

    async def kill() -> None:
        host.agent.signal(signal.SIGKILL)

    assert await _claimed_unheard(site, host, kill) >= 2
    # nobody says that the offers went nowhere: their time, or the agent's lease, runs out
    await site.add_host("other", slots=SLOTS)
    await _all_ran_once(site)


async def test_jobs_of_a_claim_whose_answer_was_lost_are_offered_again(site: Site) -> None:
    host = await site.add_host("deaf", slots=SLOTS, prelude=SHORT_OFFERS)

    async def nothing() -> None:
        """The connection breaks, that is all."""

    assert await _claimed_unheard(site, host, nothing) >= 2
    await _all_ran_once(site)


async def test_agent_that_is_killed_with_many_waiting_serves_them_when_it_is_back(site: Site) -> None:
    host = await site.add_host("restarted", slots=SLOTS)
    await _waiting(host, SLOTS // 2)
    host.agent.signal(signal.SIGKILL)
    site.submit([0.2] * SLOTS)
    await host.agent.start()
    await _all_ran_once(site)
