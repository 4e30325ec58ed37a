"""PostgreSQL stopped, killed, read-only or full: nothing is lost, and work goes on by itself."""

import asyncio
from typing import Literal

import psycopg
import pytest

from fetchwork.simulate.hookcalls import Step
from tests.faults.harness import PATIENT, UNTIL_TOLD, Pool
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize("mode", ["fast", pytest.param("immediate", marks=pytest.mark.all)])
async def test_slots_fetch_again_when_the_database_is_back(
    pool: Pool, mode: Literal["fast", "immediate"]
) -> None:
    host = await pool.add_host(slots=2)
    pool.submit([0.05] * 4)
    await pool.until_done()
    # no call begins before the server is stopped
    await host.proxy.set_mode("cut")
    pool.submit([0.05] * 4)
    await asyncio.to_thread(pool.server.stop, mode)
    await host.proxy.set_mode("open")
    await asyncio.sleep(3)
    started = pool.ledger.counts["started"]
    await asyncio.to_thread(pool.server.start)
    await pool.until(lambda: pool.ledger.counts["started"] > started)
    await pool.until_done()
    assert pool.faults() == []


async def test_fetch_without_a_database_is_answered_with_no_work(pool: Pool) -> None:
    # no hook gives up by itself: only the agent's answer ends a wait
    pool.deadlines_s = {**pool.deadlines_s, "fetch_work": 2 * PATIENCE_S}
    answered: list[object] = []

    def watch(step: Step) -> None:
        if step.hook == "fetch_work" and step.phase == "answered":
            answered.append(step.slot)

    await pool.add_host(slots=2, watch=watch)
    await asyncio.to_thread(pool.server.stop, "immediate")
    answered.clear()
    # each slot, and one of them again: an answer takes the agent some seconds
    await pool.until(lambda: len(set(answered)) == 2 and len(answered) >= 3)
    assert pool.ledger.counts["accept"] == 0


async def test_results_of_an_outage_are_all_recorded(pool: Pool) -> None:
    # each must start once, no matter how slowly
    pool.deadlines_s = PATIENT
    await pool.add_host(slots=6)
    pool.submit([UNTIL_TOLD] * 6, SimulatedExitCode=7)
    await pool.until_running(6)
    await asyncio.to_thread(pool.server.stop, "immediate")
    pool.end_jobs()
    # they all end, and report, while there is no database
    await pool.until(lambda: pool.ledger.counts["job_exit exit"] == 6)
    await asyncio.sleep(5)
    await asyncio.to_thread(pool.server.start)
    await pool.until_done()
    assert (
        pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 7 AND num_starts = 1") == 6
    )
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.faults() == []


async def test_killed_server_comes_back_to_a_whole_queue(pool: Pool) -> None:
    await pool.add_host(slots=6)
    pool.submit([0.1] * 60)
    for ended in (10, 25, 40):
        await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= ended)  # noqa: B023  # asked only before the next turn
        await asyncio.to_thread(pool.server.crash)
        await asyncio.to_thread(pool.server.start)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []


async def test_read_only_database_is_waited_for(pool: Pool) -> None:
    await pool.add_host(slots=4)
    pool.submit([0.2] * 24)
    await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= 4)
    with pool.connection() as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(2)
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")
    await pool.until_done()
    assert pool.faults() == []


async def test_server_without_free_connections_is_waited_for(pool: Pool) -> None:
    await pool.add_host(slots=4)
    pool.submit([0.2] * 24)
    await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= 4)
    held: list[psycopg.Connection] = []
    with pool.connection() as connection:
        try:
            while True:
                held.append(await asyncio.to_thread(lambda: psycopg.connect(pool.conninfo)))
        except psycopg.OperationalError:
            pass
        connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name LIKE 'fetchwork%'"
        )
        await asyncio.sleep(2)
    for each in held:
        each.close()
    await pool.until_done()
    assert pool.faults() == []
