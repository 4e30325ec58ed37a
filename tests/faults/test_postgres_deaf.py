"""Connections that stay open without data, and a network that is only slow."""

from fetchwork.simulate.hookcalls import Step
from tests.faults.harness import PATIENT, UNTIL_TOLD, Pool, deaf


async def test_agent_answers_hooks_before_their_deadlines_while_the_database_is_deaf(
    pool: Pool,
) -> None:
    begun: set[tuple[str, object]] = set()
    answered: set[str] = set()

    def watch(step: Step) -> None:
        if step.phase == "begin":
            begun.add((step.hook, step.slot))
        elif step.phase == "answered" and (step.hook, step.slot) in begun:
            answered.add(step.hook)

    # no hook gives up by itself: only the agent's answer ends a wait
    pool.deadlines_s = PATIENT
    host = await pool.add_host(slots=4, watch=watch)
    pool.submit([UNTIL_TOLD] * 4)
    await pool.until_running(4)
    begun.clear()
    answered.clear()
    async with deaf(host):
        pool.end_jobs()
        # the jobs that began and ended while it was deaf
        await pool.until(lambda: pool.ledger.counts["job_exit exit"] == 4)
        await pool.until(lambda: {"fetch_work", "job_exit"} <= answered)
    assert not [name for name in pool.ledger.counts if name.endswith("unanswered")]
    await pool.until_done()
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.faults() == []


async def test_slow_network_loses_nothing(pool: Pool) -> None:
    host = await pool.add_host(slots=4)
    await host.proxy.set_mode("slow", 0.1)
    pool.submit([0.1] * 8)
    await pool.until_done()
    # a hook whose answer came too late may still spool its report
    await pool.until(lambda: pool.faults() == [])
    assert pool.overlaps() == []


async def test_connection_that_breaks_is_replaced(pool: Pool) -> None:
    host = await pool.add_host(slots=4)
    pool.submit([0.1] * 40)
    for ended in (5, 15, 25):
        await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= ended)  # noqa: B023  # asked only before the next turn
        await host.proxy.set_mode("cut")
        await host.proxy.set_mode("open")
    await pool.until_done()
    assert pool.faults() == []
