"""One account's load on the socket and the database costs only that account."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Request, encode_request
from fetchwork.simulate.family import Actor
from tests.faults.harness import Pool
from tests.support.waiting import PATIENCE_S

NOBODY = 65534


@pytest.fixture
async def stranger() -> AsyncIterator[Actor]:
    """A hook of the jobs' account."""
    family = Actor.startd()
    someone = await family.fork(uid=NOBODY)
    yield someone
    someone.kill()
    family.kill()


async def test_locked_job_of_ones_own_keeps_nobody_else_waiting(pool: Pool, stranger: Actor) -> None:
    """The account locks its own running job, and lets four PREPARE_JOBs of that wait for 15 minutes."""
    pool.agent["lease_s"] = 12
    host = await pool.add_host(slots=3)
    pool.submit([1000.0, 1000.0])
    await pool.until_running(2)
    before = pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id")
    run_id, token = pool.rows("SELECT run_id, token::text FROM fetchwork.run WHERE proc_id = 0")[0]
    ad = f'FetchWorkRunId = {run_id}\nFetchWorkToken = "{token}"\n'.encode()
    request = Request("prepare_job", ad, keyword="FETCHWORK", deadline_ms=900_000)
    links = [
        await asyncio.open_unix_connection(sock=await stranger.connect(host.agent.socket)) for _ in "four"
    ]
    with psycopg.connect(pool.conninfo) as attacker:
        attacker.execute("SELECT FROM fetchwork.job WHERE proc_id = 0 FOR UPDATE")
        for _, outgoing in links:
            outgoing.write(encode_request(request))
            await outgoing.drain()
        # the lease is renewed again and again, and never lost
        renewed: set[datetime] = set()
        async with asyncio.timeout(PATIENCE_S):
            while len(renewed) < 4:
                lease = "SELECT lease_until, lease_until > clock_timestamp() FROM fetchwork.host"
                ((until, kept),) = pool.rows(lease)
                renewed.add(until)
                assert kept
                assert not (await host.agent.status())["databases"]["main"]["cut_off"]
                await asyncio.sleep(0.5)
        # another owner's job starts meanwhile, and ends
        pool.submit([0.1])
        await pool.until(lambda: pool.state("2.0") == 4, PATIENCE_S)
        attacker.rollback()
    # neither was killed: both ran all the time, under their first runs
    assert pool.ledger.running == 2
    assert pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id") == before
    for _, outgoing in links:
        outgoing.close()


def test_report_that_root_keeps_for_an_account_is_that_accounts(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    spool.make()
    write_report(spool.directory, Request("job_exit", b"ExitCode = 0\n", keyword="FW", arg="exit"), NOBODY)
    assert [report.uid for report in spool.read().reports] == [NOBODY]
