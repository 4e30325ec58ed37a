"""Connections that stand while nothing comes, and a network that is only slow."""

import asyncio
import time

from fetchwork.simulate.hooks import Step
from tests.faults.harness import Site, deaf


async def test_deaf_database_keeps_no_hook_beyond_its_deadline(site: Site) -> None:
    took: dict[str, list[float]] = {}
    began: dict[tuple[str, object], float] = {}

    def watch(step: Step) -> None:
        if step.phase == "begin":
            began[step.hook, step.slot] = time.monotonic()
        elif step.phase == "answered":
            took.setdefault(step.hook, []).append(time.monotonic() - began[step.hook, step.slot])

    host = await site.add_host(slots=4, watch=watch)
    site.submit([1.0] * 4)
    await site.until_running(4)
    took.clear()
    async with deaf(host):
        await site.until(lambda: site.ledger.counts["job_exit exit"] == 4)
        await asyncio.sleep(5)
    await site.until_done()
    print({hook: f"{max(times):.2f} s" for hook, times in took.items()})
    for hook, times in took.items():
        assert max(times) <= site.deadlines_s[hook] + 0.1
    await site.until(lambda: not site.left_in_spool())
    assert site.faults() == []


async def test_slow_network_loses_nothing(site: Site) -> None:
    host = await site.add_host(slots=4)
    await host.proxy.set_mode("slow", 0.1)
    site.submit([0.1] * 8)
    await site.until_done()
    assert site.faults() == []
    assert site.overlaps() == []


async def test_connection_that_breaks_is_replaced(site: Site) -> None:
    host = await site.add_host(slots=4)
    site.submit([0.1] * 40)
    for ended in (5, 15, 25):
        await site.until(lambda ended=ended: site.ledger.counts["job_exit exit"] >= ended)
        await host.proxy.set_mode("cut")
        await host.proxy.set_mode("open")
    await site.until_done()
    assert site.faults() == []
