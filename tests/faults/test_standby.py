"""A standby takes over while jobs run.

With a synchronous standby no answered call is lost. With an asynchronous one transactions are lost, and
still no job runs twice at a time.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fetchwork.classad.bindings import JobAction
from fetchwork.db import schema
from fetchwork.errors import FetchworkError
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from fetchwork.queue.reading import summaries
from tests.faults.conftest import SETTINGS
from tests.faults.harness import Pool
from tests.faults.standby import Standby
from tests.support.sessions import session_of


class Pair:
    """A primary, its standby, and a pool whose agents know both."""

    def __init__(self, primary: PostgresServer, standby: Standby, pool: Pool) -> None:
        self.primary = primary
        self.standby = standby
        self.pool = pool

    async def until_standby_follows(self) -> None:
        """Wait until the standby receives the primary's writes."""
        await self.pool.until(lambda: self.standby.follows)

    async def until_replayed(self) -> None:
        """Wait until the standby shows all of the primary's commits so far."""
        at = self.pool.value("SELECT pg_current_wal_lsn()::text")
        await self.pool.until(lambda: self.standby.query(f"SELECT pg_last_wal_replay_lsn() >= '{at}'") == "t")

    async def until_cut_off(self) -> None:
        """Cut the standby off after it has received all so far."""
        await self.until_replayed()
        await asyncio.to_thread(self.standby.cut_off)
        await self.pool.until(lambda: not self.standby.follows)

    async def fail_over(self) -> None:
        """Stop the primary for good, and let the standby take over."""
        await asyncio.to_thread(self.primary.crash)
        await asyncio.to_thread(self.standby.take_over)


@pytest.fixture
async def pair(
    public_directory: Callable[[], Path], server_directory: Callable[[], Path]
) -> AsyncIterator[Pair]:
    """An asynchronous pair, with no hosts yet."""
    primary = PostgresServer(server_directory() / "primary", settings=SETTINGS, durable=False)
    primary.start()
    standby = Standby(primary, server_directory() / "standby")
    try:
        primary.create_database("pool")
        schema.init(primary.conninfo("pool"))
        standby.start()
        both = make_conninfo(
            primary.conninfo("pool"),
            host="127.0.0.1,127.0.0.1",
            port=f"{primary.port},{standby.port}",
            target_session_attrs="read-write",
        )
        async with Pool(primary, both, public_directory()) as pool:
            pair = Pair(primary, standby, pool)
            await pair.until_standby_follows()
            yield pair
    finally:
        primary.stop("immediate")
        standby.stop("immediate")


async def test_nothing_is_lost_with_a_synchronous_standby(pair: Pair) -> None:
    pool = pair.pool
    pair.primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
    pair.primary.query("SELECT pg_reload_conf()")
    await pool.add_host(slots=4, family=True, through_proxy=False)
    await pool.add_host(slots=4, family=True, through_proxy=False)
    pool.submit([0.3] * 60)
    await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= 20)
    await pair.fail_over()
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 0") == 60


async def test_jobs_whose_starts_were_lost_do_not_run_twice_at_a_time(pair: Pair) -> None:
    pool = pair.pool
    await pool.add_host(slots=4, family=True, through_proxy=False)
    await pool.add_host(slots=4, family=True, through_proxy=False)
    await pool.until(lambda: pool.value("SELECT count(*) = 2 FROM fetchwork.host"))
    pool.value("SELECT fetchwork.set_queue('default', '{\"paused\": true}')::text")
    pool.submit([30.0] * 8)
    await pair.until_cut_off()
    pool.value("SELECT fetchwork.set_queue('default', '{\"paused\": false}')::text")
    await pool.until_running(8)
    await pair.fail_over()
    # this database lists the eight running jobs as waiting; no slot gets them before they are ended
    pool.value(
        "SELECT fetchwork.edit(ARRAY(SELECT cluster_id || '.' || proc_id FROM fetchwork.job),"
        " '{\"SimulatedSeconds\": 0.2}')::text"
    )
    pool.value("SELECT fetchwork.set_queue('default', '{\"paused\": false}')::text")
    await pool.until(lambda: pool.ledger.counts["started"] >= 16)
    assert pool.overlaps() == []
    await pool.until(lambda: pool.value("SELECT NOT offers_wait FROM fetchwork.heartbeat"))
    await pool.until_done()
    assert pool.violations() == []
    assert pool.overlaps() == []


async def test_host_that_is_silent_is_waited_for(pair: Pair) -> None:
    pool = pair.pool
    await pool.add_host(slots=2, family=True, through_proxy=False)
    silent = await pool.add_host(slots=2, family=True, through_proxy=False)
    await pool.until(lambda: pool.value("SELECT count(*) = 2 FROM fetchwork.host"))
    await pair.until_cut_off()
    pool.submit([60.0] * 4)
    await pool.until_running(4)
    silent.agent.signal(signal.SIGSTOP)
    await pair.fail_over()
    pool.submit([0.1] * 4)
    await pool.until(lambda: pool.rows("SELECT machine FROM fetchwork.unsettled") == [(silent.name,)])
    assert pool.value("SELECT count(*) FROM fetchwork.run") == 0
    silent.agent.signal(signal.SIGCONT)
    await pool.until(lambda: pool.value("SELECT count(*) = 4 FROM fetchwork.job_history"))
    assert pool.overlaps() == []


async def test_standby_answers_what_people_read_and_changes_nothing(pair: Pair) -> None:
    pool = pair.pool
    await pool.add_host(slots=2, family=True, through_proxy=False)
    pool.submit([0.1] * 4)
    await pool.until_done()
    pool.submit([60.0] * 3)
    await pool.until_running(2)
    await pool.until(lambda: pool.value("SELECT count(*) = 2 FROM fetchwork.slot"))
    await pair.until_replayed()
    questions: dict[str, Callable[[Queue], object]] = {
        "q": lambda queue: {ad["ProcId"] for ad in queue.query("ClusterId >= 1")},
        "history": lambda queue: {(ad["ClusterId"], ad["ProcId"], ad["ExitCode"]) for ad in queue.history()},
        "runs": lambda queue: {(ad["ClusterId"], ad["ProcId"]) for ad in queue.runs()},
        "events": lambda queue: [event.type for event in queue.events(job="1.0", stop_after=0)],
        "slots": lambda queue: {ad["Name"] for ad in queue.slots()},
        "submitters": lambda queue: [ad["Name"] for ad in queue.submitters()],
        "totals": lambda queue: session_of(queue).run(summaries.totals()),
        "totals by owner": lambda queue: session_of(queue).run(summaries.totals("owner")),
        "batches": lambda queue: list(session_of(queue).items("clusters", projection=["Owner"])),
    }

    def compared() -> None:
        with Queue(pair.standby.conninfo("pool")) as there, Queue(pair.primary.conninfo("pool")) as here:
            for what, question in questions.items():
                answer = question(here)
                assert answer, what
                assert question(there) == answer, what
            with pytest.raises(FetchworkError, match="read-only"):
                there.act(JobAction.Remove, "2.0")

    await asyncio.to_thread(compared)
