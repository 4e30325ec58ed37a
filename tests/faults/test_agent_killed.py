"""kill -9 and SIGSTOP of the agent right before and after each of its writes, and answers that get lost."""

import asyncio
import signal

import pytest

from tests.faults.harness import SimulatedHost, Site
from tests.faults.proxy import Side

WRITES = ("claim", "accept", "start", "heartbeat", "finish", "beat")


async def _killed(host: SimulatedHost, function: str, side: Side) -> None:
    async def kill() -> None:
        host.agent.signal(signal.SIGKILL)

    await host.proxy.trap(function, side, kill).sprung.wait()
    await asyncio.sleep(0.3)
    await host.agent.start()


async def _stopped(host: SimulatedHost, function: str, side: Side) -> None:
    async def stop() -> None:
        host.agent.signal(signal.SIGSTOP)

    await host.proxy.trap(function, side, stop, cuts=False).sprung.wait()
    await asyncio.sleep(1.0)
    host.agent.signal(signal.SIGCONT)


async def _not_heard(host: SimulatedHost, function: str, side: Side) -> None:
    async def nothing() -> None:
        """The connection breaks, that is all."""

    await host.proxy.trap(function, side, nothing).sprung.wait()


@pytest.mark.parametrize("function", WRITES)
async def test_agent_may_die_around_each_write(site: Site, function: str) -> None:
    cases = [
        (_killed, "before"),
        (_killed, "after"),
        (_stopped, "before"),
        (_stopped, "after"),
        (_not_heard, "after"),
    ]
    hosts = await asyncio.gather(*(site.add_host(slots=2) for _ in cases))
    masters = [
        asyncio.create_task(fault(host, function, side))
        for host, (fault, side) in zip(hosts, cases, strict=True)
    ]
    site.submit([0.3] * 40, SimulatedExitCode=3)
    # each of the five has had its fault and is well again
    await asyncio.wait_for(asyncio.gather(*masters), 40)
    await site.until_done(60)
    await site.until(lambda: not site.left_in_spool())
    assert site.faults() == []
    assert site.overlaps() == []
    assert site.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3") == 40


async def test_agent_that_comes_back_lets_jobs_live(site: Site) -> None:
    # it finds starters and jobs again by pid and start time
    host = await site.add_host(slots=4, family=True)
    site.submit([6.0] * 4)
    await site.until_running(4)
    await site.until(lambda: site.value("SELECT count(*) FROM fetchwork.run WHERE job_pid IS NOT NULL") == 4)
    await host.kill_agent()
    await site.until_done()
    assert site.value("SELECT count(*) FROM fetchwork.job_history WHERE num_starts = 1") == 4
    assert site.faults() == []
